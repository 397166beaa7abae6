/** Processes that share a source act on one set of hot keys; a source that is down keeps none of them from acting alone. */
import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, test } from "node:test";
import type { HotKeySourceOptions, OpenOptions } from "keylane";
import { type SandboxServer, startSingle } from "keylane/sandbox";
import { HotProcess } from "../../support/hot-sources/hot-process.js";
import { openLanes, thrown } from "../../support/lanes.js";
import { until } from "../../support/until.js";
import { resolveOptions } from "#dist/options.js";

const KEY = "up:1";

function options(source: HotKeySourceOptions, address = "127.0.0.1:1"): OpenOptions {
  return {
    domains: { user_profile: { prefixes: ["up:"], nodes: [address], mode: "single", cache: { mode: "hot" } } },
    hotKeys: { warn: 200, critical: 20_000, ttlMs: 5000, source },
  };
}

/** A server of the test's own that has the key, and so many processes that use it. */
async function fleet(size: number, source: HotKeySourceOptions): Promise<[SandboxServer, ...HotProcess[]]> {
  const server = await startSingle();
  after(() => server.stop());
  await server.node.command("SET", KEY, "value");
  const starts = Array.from({ length: size }, () => HotProcess.start(options(source, server.address)));
  return [server, ...(await Promise.all(starts))];
}

/** GETs that the server has executed. */
async function gets({ node }: SandboxServer): Promise<number> {
  const line = (await node.info("commandstats")).get("cmdstat_get") ?? "calls=0";
  return Number(/calls=(\d+)/.exec(line)![1]);
}

/** Resolves when the key is in a process's list, and gives how it stands there. */
async function hotIn(process: HotProcess): Promise<{ action: string; remote: boolean }> {
  const { action, remote } = await until(async () => (await process.ask("list")).find(({ key }) => key === KEY), {
    what: `${KEY} hot`,
  });
  return { action, remote };
}

/** Reads it 40 times; nearly all of that must be answered from the cache. */
async function servedFromCache(server: SandboxServer, process: HotProcess): Promise<void> {
  await process.ask("read", KEY, 2);
  const before = await gets(server);
  assert.equal(await process.ask("read", KEY, 40), "value");
  const sent = (await gets(server)) - before;
  assert.ok(sent <= 4, `${sent} of 40 reads reached the server`);
  assert.equal(await process.ask("cached", KEY), true);
}

function folder(): string {
  const directory = mkdtempSync(join(tmpdir(), "keylane-fleet-"));
  after(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

describe("a fleet with a source", { concurrency: true }, () => {
  test("one process detects, both serve from the shared cache, both let go, and nothing is left in the source", async () => {
    const source = { kind: "redis", domain: "user_profile" } as const;
    const [server, a, b] = (await fleet(2, source)) as [SandboxServer, HotProcess, HotProcess];
    await b.ask("read", KEY, 3);
    assert.equal(await b.ask("cached", KEY), false);
    await a.ask("drive", KEY);
    assert.deepEqual(await hotIn(a), { action: "l1", remote: false });
    assert.deepEqual(await hotIn(b), { action: "l1", remote: true });
    await servedFromCache(server, b);
    assert.equal(Number(await server.node.command("HLEN", "keylane:hotkeys")), 1);
    await a.ask("rest");
    await servedFromCache(server, a);
    await until(async () => (await a.ask("list")).length === 0 && (await b.ask("list")).length === 0, {
      timeoutMs: 20_000,
    });
    await until(async () => Number(await server.node.command("HLEN", "keylane:hotkeys")) === 0);
    for (const process of [a, b]) {
      await until(async () => !(await process.ask("cached", KEY)), { what: "nothing cached" });
      assert.equal((await process.ask("stats")).source?.trouble, null);
      assert.deepEqual((await process.ask("told")).errors, []);
    }
    assert.deepEqual((await a.ask("told")).events, [`hotkey ${KEY}`, `recovered ${KEY}`]);
    assert.deepEqual((await b.ask("told")).events, []);
    await Promise.all([a.ask("close"), b.ask("close")]);
  });

  test("one that closes takes its word back at once; one that dies is forgotten", async () => {
    const directory = folder();
    const source = { kind: "file", directory, beatMs: 300 } as const;
    const [, a, b, c] = (await fleet(3, source)) as [SandboxServer, HotProcess, HotProcess, HotProcess];
    for (const process of [a, b]) {
      await process.ask("drive", KEY);
      assert.equal((await hotIn(process)).action, "l1");
    }
    await hotIn(c);
    const files = (): string[] => readdirSync(directory).filter((name) => name.endsWith(".json"));
    await until(() => files().length === 2);
    await a.ask("close");
    assert.equal(files().length, 1);
    assert.equal((await hotIn(c)).remote, true);
    await b.die();
    await until(async () => (await c.ask("list")).length === 0);
    await until(() => files().length === 0);
    await c.ask("close");
  });

  test("a source that is down stops nobody: told once, keys are hot all the same, and close does not wait for it", async () => {
    const source = { kind: "etcd", endpoints: ["http://127.0.0.1:1"], beatMs: 100, timeoutMs: 500 } as const;
    const [server, a] = (await fleet(1, source)) as [SandboxServer, HotProcess];
    await a.ask("drive", KEY);
    assert.deepEqual(await hotIn(a), { action: "l1", remote: false });
    await servedFromCache(server, a);
    const { trouble } = (await a.ask("stats")).source!;
    assert.match(String(trouble), /^hot key source etcd 127\.0\.0\.1:1 .*ECONNREFUSED/);
    const { errors } = await a.ask("told");
    assert.deepEqual(errors, [`KEYLANE_ERR_SOURCE ${trouble}`]);
    await a.ask("close");
  });

  test("a source's options are refused with their path, and a domain must be one", async () => {
    const refuse = (source: object, message: RegExp): void =>
      void thrown(() => resolveOptions(options(source as HotKeySourceOptions)), "KEYLANE_ERR_OPTIONS", { message });
    refuse({ kind: "zookeeper" }, /hotKeys\.source\.kind: /);
    refuse(
      { kind: "etcd", endpoints: ["x"] },
      /hotKeys\.source\.endpoints\.0: must be an http:\/\/ or https:\/\/ address/,
    );
    refuse({ kind: "redis" }, /hotKeys\.source: needs either domain or url/);
    const [result] = await Promise.allSettled([openLanes(options({ kind: "redis", domain: "none" }))]);
    assert.match(
      String((result as PromiseRejectedResult).reason),
      /hotKeys\.source\.domain: there is no domain "none"/,
    );
  });
});
