/** Several threads on one pool: attached through it or beside it, they share slot maps, cache and single flight. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { describe, it, type TestContext } from "node:test";
import { Worker } from "node:worker_threads";
import type { Keylane, OpenOptions } from "keylane";

import type { SandboxNode } from "keylane/sandbox";
import { useC3, useSingle } from "../../support/fixtures.js";
import { openLanes, rejection, thrown } from "../../support/lanes.js";
import type { GuestAsk } from "../../support/pool/guest.js";
import { endWorker, runningWorkers } from "../../support/pool/workers.js";
import { rawCommand } from "../../support/raw.js";
import { until, within } from "../../support/until.js";

/** A thread that attached; `ask` has it make a call. */
async function guest(t: TestContext, lanes: Keylane<never>, via: "own" | "pool") {
  const handle = lanes.handle({ via });
  const thread = new Worker(new URL("../../support/pool/guest.js", import.meta.url), {
    workerData: { handle, via },
    transferList: handle.pool === null ? [] : [handle.pool.port],
  });
  t.after(() => thread.terminate());
  await within(once(thread, "message"), 10_000, "attach");
  const ask = async (call: GuestAsk["call"], ...args: unknown[]): Promise<unknown> => {
    thread.postMessage({ call, args } satisfies GuestAsk);
    const [answer] = (await once(thread, "message")) as [{ value?: unknown; code?: string; outcome?: string }];
    return answer.code === undefined ? answer.value : `${answer.code} ${answer.outcome}`;
  };
  return { thread, ask };
}

async function clientsOf(node: SandboxNode): Promise<number> {
  return Number((await node.info("clients")).get("connected_clients"));
}

describe("threads on one pool", () => {
  const cluster = useC3();
  const open = (more: object = {}) =>
    openLanes({
      domains: {
        plain: { prefixes: ["p:"], nodes: cluster.value.seeds },
        cached: { prefixes: ["c:"], nodes: cluster.value.seeds, codec: "json", cache: { mode: "all" } },
      },
      commandTimeoutMs: 5000,
      threads: 2,
      ...more,
    } as OpenOptions) as Promise<unknown> as Promise<Keylane<never>>;

  it("a thread attached via the pool has no connections of its own and shares all else", async (t) => {
    const lanes = await open();
    const before = await clientsOf(cluster.value.primaries[0]!);
    const { thread, ask } = await guest(t, lanes, "pool");
    assert.equal(await ask("set", "p:1", "from the guest"), true);
    assert.equal(await lanes.get("p:1" as never), "from the guest");
    for (let at = 0; at < 50; at += 1) assert.equal(await ask("incrBy", `p:n${at}`), 1);
    assert.equal(await ask("get", "p:n7"), "1");
    assert.equal(await clientsOf(cluster.value.primaries[0]!), before, "the server has no new client");
    assert.equal(await ask("peek", "c:1"), undefined);
    await lanes.set("c:1" as never, { a: 1 } as never);
    assert.deepEqual(await ask("get", "c:1"), { a: 1 });
    assert.deepEqual(lanes.peek("c:1" as never), { a: 1 }, "loaded by one, there for all");
    const told = (await ask("stats")) as { domains: Record<string, { commands: number; nodes: unknown[] }> };
    assert.equal(told.domains["plain"]!.commands, 52);
    assert.equal(told.domains["plain"]!.nodes.length, 3);
    assert.deepEqual(await ask("close"), { lost: 0 });
    await within(once(thread, "exit"), 5000, "the guest's end");
    assert.equal(await lanes.get("p:n7" as never), "1");
  });

  it("a thread attached beside the pool has its own connections", async (t) => {
    const lanes = await open();
    const { ask } = await guest(t, lanes, "own");
    assert.equal(await ask("set", "p:2", "x"), true);
    assert.equal(await lanes.get("p:2" as never), "x");
    assert.deepEqual(await ask("close"), { lost: 0 });
  });

  it("a guest's calls survive the death of a worker, and fail when the pool is closed", async (t) => {
    const lanes = await open();
    const { ask } = await guest(t, lanes, "pool");
    const workers = runningWorkers();
    assert.equal(workers.length, 2);
    for (const worker of workers) await endWorker(worker, "exit");
    for (let at = 0; at < 20; at += 1) assert.equal(await ask("set", `p:${at}`, "again"), true);
    await lanes.close();
    assert.match(String(await ask("set", "p:1", "late")), /^KEYLANE_ERR_WORKER_LOST/);
    assert.equal(await ask("set", "p:1", "later"), "KEYLANE_ERR_WORKER_LOST not-sent");
    assert.deepEqual(await ask("close"), { lost: 0 });
    thrown(() => lanes.handle({ via: "pool" }), "KEYLANE_ERR_CLOSED");
  });

  it("a blocking command ends with the guest that waits for it, and takes nothing", async (t) => {
    const lanes = await open();
    const { thread, ask } = await guest(t, lanes, "pool");
    const node = cluster.value.primaries.find(({ address }) => address === lanes.route("p:queue").node)!;
    const blocked = async (): Promise<number> => Number((await node.info("clients")).get("blocked_clients"));
    void ask("command", "BLPOP", "p:queue", 0);
    await until(async () => (await blocked()) === 1);
    await thread.terminate();
    await until(async () => (await blocked()) === 0, { what: "nobody is blocked any more" });
    assert.equal(await lanes.command("RPUSH", "p:queue", "x"), 1);
    assert.equal(await lanes.command("LLEN", "p:queue"), 1);
  });

  it("a handle that was given before a worker was replaced leads to each worker once", async (t) => {
    const lanes = await open({ threads: 1 });
    const { port } = lanes.handle({ via: "pool" }).pool!;
    t.after(() => port.close());
    await endWorker(runningWorkers()[0]!, "exit");
    assert.equal(await lanes.set("p:1" as never, "v" as never), true, "there is another worker");
    const deliveries: { worker: number }[] = [];
    port.on("message", (delivery: { worker: number }) => deliveries.push(delivery));
    port.postMessage("join");
    await until(() => deliveries.length > 0);
    await new Promise(setImmediate);
    assert.deepEqual(
      deliveries.map((delivery) => [delivery.worker, "port" in delivery]),
      [[0, true]],
    );
  });
});

describe("L2: single flight over workers", () => {
  const server = useSingle();

  it("L2: 200 reads of one absent key over 4 workers, by the opener and a guest, are one GET", async (t) => {
    const lanes = (await openLanes({
      domains: {
        all: {
          prefixes: [""],
          nodes: [server.value.address],
          mode: "single",
          cache: { mode: "all", negativeTtlMs: 60_000 },
        },
      },
      commandTimeoutMs: 2000,
      threads: 4,
    } as OpenOptions)) as unknown as Keylane<never>;
    const { ask } = await guest(t, lanes, "pool");
    const gets = async (): Promise<number> => {
      const stats = String(await rawCommand(server.value.address, "INFO", "commandstats"));
      return Number(/cmdstat_get:calls=(\d+)/.exec(stats)?.[1] ?? 0);
    };
    const before = await gets();
    const others = ask("get", "absent");
    const values = await Promise.all(Array.from({ length: 200 }, () => lanes.get("absent" as never)));
    assert.deepEqual(new Set(values), new Set([null]));
    assert.equal(await others, null);
    assert.equal((await gets()) - before, 1);
    assert.equal(lanes.peek("absent" as never), null);
    await rawCommand(server.value.address, "SET", "absent", "there");
    await until(async () => (await lanes.get("absent" as never)) === "there", {
      what: "the server tells of the change",
    });
  });

  it("L2: an error reaches all waiters and is not cached; a deadline frees them", async () => {
    const lanes = (await openLanes({
      domains: { all: { prefixes: [""], nodes: [server.value.address], mode: "single", cache: { mode: "all" } } },
      commandTimeoutMs: 300,
      threads: 2,
    } as OpenOptions)) as unknown as Keylane<never>;
    await rawCommand(server.value.address, "DEL", "list");
    await rawCommand(server.value.address, "RPUSH", "list", "x");
    const reads = Array.from({ length: 20 }, () => rejection(lanes.get("list" as never), "KEYLANE_ERR_WRONGTYPE"));
    await Promise.all(reads);
    await rawCommand(server.value.address, "SET", "list", "now a value");
    assert.equal(await lanes.get("list" as never), "now a value");
    server.value.node.pause();
    const late = Array.from({ length: 20 }, () => rejection(lanes.get("slow" as never), "KEYLANE_ERR_TIMEOUT"));
    await within(Promise.all(late), 2000, "the waiters");
    server.value.node.resume();
    await until(async () => (await lanes.get("slow" as never)) === null);
  });
});
