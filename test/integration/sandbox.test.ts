/** The sandbox's clusters are real ones: whole when handed over, and they move, fail over and come back as clusters do. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { KeylaneError } from "#dist/errors.js";
import { type Announce, ReplyError, type SandboxCluster, type SandboxNode, startCluster } from "keylane/sandbox";
import { useC3, useC6 } from "../support/fixtures.js";
import { connectRaw, rawCommand } from "../support/raw.js";
import { until } from "../support/until.js";

/** Slot of keys tagged `{bar}`. */
const BAR = 5061;

/** Follows MOVED and ASK for one command, as a client without any cleverness would. */
async function follow(start: string, ...args: (string | number)[]): Promise<unknown> {
  let [address, asking] = [start, false];
  for (let hops = 0; hops < 16; hops++) {
    const client = await connectRaw(address);
    try {
      if (asking) await client.command("ASKING");
      return await client.text(...args);
    } catch (error) {
      if (!(error instanceof ReplyError) || (error.code !== "MOVED" && error.code !== "ASK")) throw error;
      [address, asking] = [error.message.split(" ")[2]!, error.code === "ASK"];
    } finally {
      client.close();
    }
  }
  throw new Error(`${args.join(" ")} was redirected too often`);
}

/** Names that do not resolve and ports where nobody listens. */
function announce(index: number, port: number): Announce {
  return { hostname: `node-${index}.example`, port: port + 1000, endpoint: "hostname" };
}

function otherPrimary(cluster: SandboxCluster, node: SandboxNode): SandboxNode {
  return cluster.primaries.find((candidate) => candidate !== node)!;
}

describe("three primaries with a replica each", () => {
  const c6 = useC6();

  test("every node reports every slot, with one primary and one replica", async () => {
    assert.equal(c6.value.nodes.length, 6);
    assert.equal(c6.value.seeds.length, 3);
    for (const node of c6.value.nodes) {
      const rows = (await node.command("CLUSTER", "SLOTS")) as [number, number, ...unknown[]][];
      assert.equal(
        rows.reduce((sum, [from, to]) => sum + to - from + 1, 0),
        16_384,
      );
      assert.deepEqual(
        rows.map((row) => row.length),
        [4, 4, 4],
      );
      assert.equal((await node.info("cluster-info")).get("cluster_state"), "ok");
    }
  });

  test("a write reaches the replica", async () => {
    const owner = await c6.value.ownerOf(BAR);
    const replica = c6.value.replicasOf(owner)[0]!;
    const writer = await owner.client();
    await writer.command("SET", "{bar}replicated", "yes");
    assert.equal(await writer.command("WAIT", 1, 5000), 1);
    writer.close();
    const reader = await replica.client();
    await reader.command("READONLY");
    assert.equal(await reader.text("GET", "{bar}replicated"), "yes");
    reader.close();
  });

  test("a slot moves while its keys are written, and no increment is lost", async () => {
    const source = await c6.value.ownerOf(BAR);
    const target = otherPrimary(c6.value, source);
    for (let key = 0; key < 250; key++) await source.command("SET", `{bar}${key}`, key);
    const moving = new AbortController();
    let increments = 0;
    const load = (async () => {
      while (!moving.signal.aborted || increments < 50) {
        await follow(source.address, "INCR", "{bar}count");
        increments++;
      }
    })();
    await c6.value.moveSlots([BAR], source, target);
    moving.abort();
    await load;
    assert.equal((await c6.value.ownerOf(BAR)).id, target.id);
    assert.equal(await target.command("GET", "{bar}count"), String(increments));
    for (const key of [0, 99, 100, 249]) assert.equal(await target.command("GET", `{bar}${key}`), String(key));
    assert.deepEqual(await source.command("CLUSTER", "GETKEYSINSLOT", BAR, 10), []);
    await assert.rejects(source.command("GET", "{bar}0"), new RegExp(`^ReplyError: MOVED ${BAR} ${target.address}$`));
  });

  test("a failover swaps the roles and keeps the data", async () => {
    const before = await c6.value.ownerOf(BAR);
    const replica = c6.value.replicasOf(before)[0]!;
    await before.command("SET", "{bar}kept", "1");
    await c6.value.failover(replica);
    assert.equal((await c6.value.ownerOf(BAR)).id, replica.id);
    assert.equal(await replica.command("GET", "{bar}kept"), "1");
    assert.equal(replica.role, "primary");
    assert.equal(before.role, "replica");
    assert.equal(before.primaryId, replica.id);
    assert.ok(c6.value.seeds.includes(replica.address));
  });

  test("a killed primary is replaced by its replica and comes back as one, at its old address", async () => {
    const primary = await c6.value.ownerOf(BAR);
    const replica = c6.value.replicasOf(primary)[0]!;
    const { id, address, pid } = primary;
    await primary.kill();
    assert.equal(primary.running, false);
    assert.equal(primary.pid, undefined);
    await c6.value.waitHealthy();
    assert.equal((await c6.value.ownerOf(BAR)).id, replica.id);
    await primary.start();
    await c6.value.waitHealthy();
    assert.deepEqual([primary.id, primary.address, primary.role], [id, address, "replica"]);
    assert.notEqual(primary.pid, pid);
  });
});

describe("three primaries", () => {
  const c3 = useC3();

  test("a slot under way answers ASK and TRYAGAIN, and stays when the move is cancelled", async () => {
    const source = await c3.value.ownerOf(BAR);
    const target = otherPrimary(c3.value, source);
    await source.command("MSET", "{bar}a", "1", "{bar}b", "2");
    const move = await c3.value.beginMove(BAR, source, target);
    assert.equal(await source.command("GET", "{bar}a"), "1");
    await assert.rejects(source.command("GET", "{bar}new"), new RegExp(`^ReplyError: ASK ${BAR} ${target.address}$`));
    assert.equal(await move.migrate(["{bar}a"]), 1);
    await assert.rejects(source.command("MGET", "{bar}a", "{bar}b"), /^ReplyError: TRYAGAIN /);
    assert.equal(await follow(source.address, "GET", "{bar}a"), "1");
    await move.cancel();
    assert.equal((await c3.value.ownerOf(BAR)).id, source.id);
    assert.equal(await source.command("GET", "{bar}b"), "2");
    const again = await c3.value.beginMove(BAR, source, target);
    await again.finish();
    assert.deepEqual(await target.command("MGET", "{bar}a", "{bar}b"), ["1", "2"]);
  });

  test("a paused node takes connections and answers nothing; resumed, it answers", async () => {
    const [node] = c3.value.primaries;
    node!.pause();
    assert.deepEqual([node!.running, node!.paused], [true, true]);
    await assert.rejects(
      node!.client({ timeoutMs: 150 }).then((client) => client.command("PING")),
      (error) => {
        assert.ok(error instanceof KeylaneError);
        return error.code === "KEYLANE_ERR_TIMEOUT";
      },
    );
    node!.resume();
    assert.equal(node!.paused, false);
    assert.equal((await rawCommand(node!.address, "PING")) as string, "PONG");
    await c3.value.waitHealthy();
  });

  test("a cluster that is not whole says why", async () => {
    const [, , node] = c3.value.primaries;
    await node!.kill();
    await assert.rejects(c3.value.waitHealthy({ timeoutMs: 200 }), (error) => {
      assert.ok(error instanceof KeylaneError);
      assert.equal(error.code, "KEYLANE_ERR_SANDBOX");
      return /not whole after 200 ms: .*(covered by live nodes|cluster_state is fail|no link)/.test(error.message);
    });
    await node!.start();
    await c3.value.waitHealthy();
  });

  test("a node joins, takes all slots of another, and that one leaves", async () => {
    const [leaving] = c3.value.primaries;
    const joined = await c3.value.addNode();
    const line = (await c3.value.view()).find(({ id }) => id === leaving!.id)!;
    await c3.value.moveSlots(line.slots, leaving!, joined);
    await c3.value.removeNode(leaving!);
    await c3.value.waitHealthy();
    assert.equal((await c3.value.view(joined)).length, 3);
    assert.equal((await c3.value.ownerOf(line.slots[0]![0])).id, joined.id);
    assert.equal(leaving!.running, false);
  });
});

describe("other kinds of cluster", () => {
  test("on the IPv6 loopback address", async () => {
    await using cluster = await startCluster({ primaries: 2, host: "::1" });
    assert.match(cluster.seeds[0]!, /^\[::1\]:\d+$/);
    const target = cluster.nodes[1]!;
    await assert.rejects(cluster.nodes[0]!.command("GET", "foo"), new RegExp(`MOVED 12182 ::1:${target.port}$`));
  });

  test("with announced host names and ports", async () => {
    await using cluster = await startCluster({ primaries: 2, announce });
    const port = cluster.nodes[1]!.port + 1000;
    await assert.rejects(cluster.nodes[0]!.command("GET", "foo"), new RegExp(`MOVED 12182 node-1.example:${port}$`));
  });

  test("with TLS, a password and an ACL user", async () => {
    const users = ["app on >secret ~app:* &* +@all"];
    await using cluster = await startCluster({
      primaries: 2,
      replicas: 1,
      tls: true,
      password: "default-secret",
      users,
    });
    const [node, other] = cluster.nodes;
    const { host, port, tlsOptions } = node!;
    const app = await connectRaw(`${host}:${port}`, { tls: tlsOptions, username: "app", password: "secret" });
    assert.equal(await app.text("ACL", "WHOAMI"), "app");
    await assert.rejects(app.command("GET", "other:{bar}"), /^ReplyError: NOPERM /);
    await assert.rejects(
      connectRaw(`${host}:${port}`, { tls: tlsOptions, password: "wrong" }),
      /^ReplyError: WRONGPASS /,
    );
    app.close();
    await node!.command("SET", "{bar}k", "v");
    await cluster.moveSlots([BAR], node!, other!);
    assert.equal(await other!.command("GET", "{bar}k"), "v");
  });

  test("refuses counts that make no cluster", async () => {
    await assert.rejects(startCluster({ primaries: 0 }), { code: "KEYLANE_ERR_ARGUMENT" });
    await assert.rejects(startCluster({ replicas: 1.5 }), { code: "KEYLANE_ERR_ARGUMENT" });
  });
});

test("a listening server is never mistaken for one of the sandbox's", async () => {
  const clusters = await Promise.all([startCluster({ primaries: 1 }), startCluster({ primaries: 1 })]);
  const [one, two] = clusters.map((cluster) => cluster.nodes[0]!) as [SandboxNode, SandboxNode];
  assert.notEqual(one.port, two.port);
  for (const node of [one, two]) assert.equal(Number((await node.info("server")).get("process_id")), node.pid);
  await Promise.all(clusters.map((cluster) => cluster.stop()));
  await until(async () => !(await rawCommand(one.address, "PING").catch(() => null)));
});
