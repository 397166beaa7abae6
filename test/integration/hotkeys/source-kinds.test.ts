/** What only one kind of hot key source does: logins, compaction, lost subscribers, conflicts, signatures. */
import assert from "node:assert/strict";
import { mkdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import type { RawConfig } from "#dist/lane/raw.js";
import { startCluster, startSingle } from "keylane/sandbox";
import { useFixture } from "../../support/fixtures.js";
import { ApolloServer } from "../../support/hot-sources/apollo-server.js";
import { base64, Etcd } from "../../support/hot-sources/etcd.js";
import { NacosServer } from "../../support/hot-sources/nacos-server.js";
import { hot, Party } from "../../support/hot-sources/party.js";
import { filePlace } from "../../support/hot-sources/places.js";
import { splitAddress } from "../../support/raw.js";
import { until } from "../../support/until.js";

const SECRET = "s3cret/pass";
/** So long that nothing is found by looking, only by hearing. */
const LONG_BEAT_MS = 60_000;

/** The first trouble of a party, which must not quote the secret. */
async function firstTrouble(party: Party): Promise<string> {
  await until(() => party.troubles.length > 0);
  const text = String(party.troubles[0]);
  assert.ok(!text.includes(SECRET) && !text.includes(encodeURIComponent(SECRET)), text);
  return text;
}

describe("kinds of hot key sources, side by side", { concurrency: true }, () => {
  describe("file", { concurrency: 1 }, () => {
    const place = useFixture(filePlace, (one) => one.stop());

    test("changes are heard from the file system, links and folders are not read, a removed folder is made again", async () => {
      const options = { ...place.value.options, beatMs: LONG_BEAT_MS };
      const directory = (place.value.options as { directory: string }).directory;
      const [a, b] = await Promise.all([Party.join(options), Party.join(options)]);
      a.say("up:1");
      await b.hears("up:1");
      const secret = join(directory, "..", "elsewhere");
      writeFileSync(secret, SECRET);
      symlinkSync(secret, join(directory, "00000000-link.json"));
      assert.match(await firstTrouble(b), /"00000000-link" is passed over: it cannot be read \(ELOOP\)/);
      mkdirSync(join(directory, "00000000-folder.json"));
      await until(() => b.troubles.length === 2);
      assert.match(String(b.troubles[1]), /it is no file/);
      rmSync(directory, { recursive: true });
      a.say("up:2");
      b.say("up:3");
      await Promise.all([b.hears("up:2"), a.hears("up:3")]);
    });
  });

  describe("redis", { concurrency: 1 }, () => {
    const single = useFixture(
      () => startSingle({ password: SECRET }),
      (server) => server.stop(),
    );
    const cluster = useFixture(
      () => startCluster({ primaries: 3, nodeTimeoutMs: 1000 }),
      (one) => one.stop(),
    );

    test("a subscriber that is lost is dialled anew, and what it missed is looked up", async () => {
      const url = `redis://:${encodeURIComponent(SECRET)}@${single.value.address}/0`;
      const options = { kind: "redis", url, key: "k1", beatMs: LONG_BEAT_MS } as const;
      const [a, b] = await Promise.all([Party.join(options), Party.join(options)]);
      a.say("up:1");
      await b.hears("up:1");
      // The message of this word reaches nobody.
      const text = ((await single.value.node.command("HGETALL", "k1")) as string[])[1]!;
      const later = text.replace('"beat":1', '"beat":2').replace("up:1", "up:2");
      await single.value.node.command("HSET", "k1", a.source.holder, later);
      assert.equal(b.heard(), "up:1");
      await single.value.node.command("CLIENT", "KILL", "TYPE", "PUBSUB");
      await b.hears("up:2");
      assert.deepEqual([...a.troubles, ...b.troubles], []);
    });

    test("the hash goes by itself when nobody writes any more", async () => {
      const url = `redis://${single.value.address}`;
      const a = await Party.join({ kind: "redis", url, password: SECRET, key: "k2" });
      a.say("up:1");
      await until(async () => (await single.value.node.command("EXISTS", "k2")) === 1);
      await a.die();
      await until(async () => (await single.value.node.command("EXISTS", "k2")) === 0);
    });

    test("a wrong password is told without it", async () => {
      const url = `redis://:${encodeURIComponent(`${SECRET}x`)}@${single.value.address}`;
      const a = await Party.join({ kind: "redis", url, timeoutMs: 300 });
      assert.match(await firstTrouble(a), /WRONGPASS|NOAUTH|no connection/);
    });

    test("in a domain of a cluster: heard by hearing, through the loss of a subscriber's node too", async () => {
      const lane: RawConfig = {
        domain: "up",
        mode: "cluster",
        seeds: cluster.value.seeds.map(splitAddress),
        sentinels: undefined,
        credentials: {},
        tls: undefined,
        db: undefined,
        connectionName: "keylane",
        natMap: undefined,
        scaleReads: "master",
        connectTimeoutMs: 2000,
      };
      const options = { kind: "redis", domain: "up", beatMs: LONG_BEAT_MS } as const;
      const laneOf = (domain: string): RawConfig | undefined => (domain === "up" ? lane : undefined);
      const [a, b] = await Promise.all([Party.join(options, laneOf), Party.join(options, laneOf)]);
      a.say("up:1");
      await b.hears("up:1");
      await Promise.all(cluster.value.nodes.map((node) => node.command("CLIENT", "KILL", "TYPE", "PUBSUB")));
      a.say("up:1", "up:2");
      await b.hears("up:1", "up:2");
      await a.source.stop(2000);
      await b.hears();
      assert.deepEqual([...a.troubles, ...b.troubles], []);
    });
  });

  describe("etcd", { concurrency: 1 }, () => {
    const etcd = useFixture(
      () => Etcd.start(),
      (one) => one.stop(),
    );

    test("a watch that is lost goes on where it was, and looks anew when that was compacted away", async () => {
      const options = { kind: "etcd", endpoints: [etcd.value.url], prefix: "k1/", beatMs: LONG_BEAT_MS } as const;
      const [a, b] = await Promise.all([Party.join(options), Party.join(options)]);
      a.say("up:1");
      await b.hears("up:1");
      const holder = `k1/${a.source.holder}`;
      const text = [...(await etcd.value.entries("k1/")).values()][0]!;
      await etcd.value.down();
      await until(() => b.troubles.length === 1, { timeoutMs: 20_000 });
      await etcd.value.up();
      await etcd.value.put(holder, text.replace('"beat":1', '"beat":2').replace("up:1", "up:2"));
      await etcd.value.put("other", "x");
      const { header } = (await etcd.value.call("/v3/kv/range", { key: base64("other") })) as {
        header: { revision: string };
      };
      await etcd.value.call("/v3/kv/compaction", { revision: header.revision });
      await b.hears("up:2");
      await etcd.value.put(holder, text.replace('"beat":1', '"beat":3').replace("up:1", "up:3"));
      await b.hears("up:3");
      await until(() => b.troubles.length === 2);
      assert.equal(b.troubles[1], null);
    });

    test("a lease that was taken away is taken anew", async () => {
      const options = { kind: "etcd", endpoints: [etcd.value.url], prefix: "k2/" } as const;
      const [a, b] = await Promise.all([Party.join(options), Party.join(options)]);
      a.say("up:1");
      await b.hears("up:1");
      const { leases = [] } = (await etcd.value.call("/v3/lease/leases", {})) as { leases?: { ID: string }[] };
      assert.ok(leases.length > 0);
      await Promise.all(leases.map(({ ID }) => etcd.value.call("/v3/lease/revoke", { ID })));
      await b.hears();
      await b.hears("up:1");
      assert.deepEqual(a.troubles, []);
    });

    test("with users: a login, a new one when the token is no good any more, a wrong password told without it", async () => {
      const server = etcd.value;
      await server.call("/v3/auth/user/add", { name: "root", password: SECRET });
      await server.call("/v3/auth/role/add", { name: "root" });
      await server.call("/v3/auth/user/grant", { user: "root", role: "root" });
      await server.call("/v3/auth/enable", {});
      const options = { kind: "etcd", endpoints: [server.url], prefix: "k3/", username: "root" } as const;
      const wrong = await Party.join({ ...options, password: `${SECRET}x` });
      assert.match(await firstTrouble(wrong), /authenticate answered 400: .*authentication failed/);
      await wrong.source.stop(0);
      const [a, b] = await Promise.all([1, 2].map(() => Party.join({ ...options, password: SECRET })));
      a!.say("up:1");
      await b!.hears("up:1");
      // A change of users makes every token worthless.
      const { token } = (await server.call("/v3/auth/authenticate", { name: "root", password: SECRET })) as {
        token: string;
      };
      await server.call("/v3/auth/user/add", { name: "other", password: "x" }, token);
      a!.say("up:2");
      await b!.hears("up:2");
      assert.deepEqual([...a!.troubles, ...b!.troubles], []);
      const again = (await server.call("/v3/auth/authenticate", { name: "root", password: SECRET })) as {
        token: string;
      };
      await server.call("/v3/auth/disable", {}, again.token);
    });

    test("of several endpoints one that answers is enough", async () => {
      const endpoints = ["http://127.0.0.1:1", etcd.value.url];
      const options = { kind: "etcd", endpoints, prefix: "k4/" } as const;
      const [a, b] = await Promise.all([Party.join(options), Party.join(options)]);
      a.say("up:1");
      await b.hears("up:1");
      assert.deepEqual(
        a.troubles.concat(b.troubles).filter((one) => one !== null && !/watch/.test(one.message)),
        [],
      );
    });
  });

  describe("nacos", { concurrency: 1 }, () => {
    const user = { username: "nacos", password: SECRET };
    const nacos = useFixture(
      () => NacosServer.start({ user, holdMs: 100 }),
      (one) => one.down(),
    );
    const options = (dataId: string): ConstructorParameters<typeof Party>[0] => ({
      kind: "nacos",
      servers: [nacos.value.url],
      dataId,
      ...user,
    });

    test("writers that come too late try again; others' documents stay as they are", async () => {
      const alien = {
        keylane: 1,
        holder: "00000000-other",
        beat: 1,
        beatMs: 60_000,
        keys: [hot("up:0")],
        more: [1.5, "ü"],
      };
      nacos.value.publish("k1", JSON.stringify({ "00000000-other": alien }));
      const parties = await Promise.all(Array.from({ length: 6 }, () => Party.join(options("k1"))));
      for (const [at, party] of parties.entries()) party.say(`up:${at + 1}`);
      await parties[0]!.hears("up:0", "up:2", "up:3", "up:4", "up:5", "up:6");
      assert.ok(nacos.value.counts.conflicts > 0);
      const board = (): Record<string, unknown> => JSON.parse(nacos.value.content("k1")!) as Record<string, unknown>;
      await until(() => Object.keys(board()).length === 7);
      assert.deepEqual(board()["00000000-other"], alien);
      await Promise.all(parties.map(({ source }) => source.stop(3000)));
      assert.deepEqual(Object.keys(board()), ["00000000-other"]);
      assert.deepEqual(
        parties.flatMap(({ troubles }) => troubles),
        [],
      );
    });

    test("polls are held and end empty while nothing changes; a token that ran out is followed by a new login", async () => {
      const [a, b] = await Promise.all([Party.join(options("k2")), Party.join(options("k2"))]);
      const { empty, logins, polls } = nacos.value.counts;
      await until(() => nacos.value.counts.empty >= empty + 4);
      assert.ok(nacos.value.counts.polls < polls + 20);
      nacos.value.expireTokens();
      a.say("up:1");
      await b.hears("up:1");
      assert.ok(nacos.value.counts.logins > logins);
      assert.deepEqual([...a.troubles, ...b.troubles], []);
    });

    test("a configuration that is not ours is told and left as it is", async () => {
      nacos.value.publish("k3", "a=1");
      const a = await Party.join(options("k3"));
      assert.match(await firstTrouble(a), /no JSON object; it is left as it is/);
      a.say("up:1");
      const { writes } = nacos.value.counts;
      await a.source.stop(500);
      assert.equal(nacos.value.content("k3"), "a=1");
      assert.equal(nacos.value.counts.writes, writes);
    });

    test("a wrong password is told without it, whatever the server answers", async () => {
      const a = await Party.join({ ...options("k4"), password: `${SECRET}x` } as ConstructorParameters<
        typeof Party
      >[0]);
      assert.match(await firstTrouble(a), /login answered 403: unknown user! \*\*\*/);
    });
  });

  describe("apollo", { concurrency: 1 }, () => {
    const apollo = useFixture(
      () => ApolloServer.start({ appId: "ads", namespace: "keylane.hotkeys", secret: SECRET, holdMs: 100 }),
      (one) => one.down(),
    );
    const options = (more: object = {}): ConstructorParameters<typeof Party>[0] => {
      const { url, token, operator } = apollo.value;
      const given = {
        kind: "apollo",
        portal: url,
        token,
        operator,
        servers: [url],
        appId: "ads",
        secret: SECRET,
      } as const;
      return { ...given, ...more };
    };

    test("requests are signed with the access key; notifications end with 304 while nothing is released", async () => {
      const [a, b] = await Promise.all([Party.join(options()), Party.join(options())]);
      await until(() => apollo.value.counts.unchanged >= 4);
      a.say("up:1");
      await b.hears("up:1");
      assert.deepEqual([...a.troubles, ...b.troubles], []);
      assert.equal(apollo.value.counts.refused, 0);
    });

    test("a wrong token or access key is told without it", async () => {
      const portal = await Party.join(options({ token: SECRET }));
      portal.say("up:1");
      assert.match(await firstTrouble(portal), /PUT .* answered 401: no consumer has the token \*\*\*/);
      const config = await Party.join(options({ secret: `${SECRET}x` }));
      assert.match(await firstTrouble(config), /GET .* answered 401: Unauthorized/);
    });
  });
});
