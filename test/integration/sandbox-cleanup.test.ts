/** Nothing of a sandbox outlives its process, however that process ends: no server, no watchdog, no file. */
import assert from "node:assert/strict";
import { existsSync, mkdtempSync, readdirSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { entriesOf, isRunning, processesIn, type Program, runProgram } from "../support/processes.js";
import { rawCommand } from "../support/raw.js";
import { until } from "../support/until.js";

const CHILD = fileURLToPath(new URL("../support/sandbox-child.js", import.meta.url));
const CLI = fileURLToPath(new URL("../../../dist/cli/main.js", import.meta.url));

interface Told {
  readonly pids: number[];
  readonly seeds: string[];
}

describe("nothing is left behind", () => {
  let folder: string;
  let program: Program | undefined;

  beforeEach(() => {
    folder = mkdtempSync(join(realpathSync(tmpdir()), "sandbox-test-"));
  });
  afterEach(() => {
    program?.kill("SIGKILL");
    rmSync(folder, { recursive: true, force: true });
  });

  /** Starts the child and sees its servers running. */
  async function begin(ending: string): Promise<Told> {
    program = runProgram(CHILD, [ending], folder);
    const told = JSON.parse(await program.firstLine) as Told;
    assert.equal(told.pids.length, 2);
    if (ending === "wait") assert.ok(told.pids.every(isRunning));
    return told;
  }

  async function nothingLeft(told?: Told): Promise<void> {
    await until(() => processesIn(folder).length === 0, { what: "no process left" }).catch((error: Error) => {
      throw new Error(`${error.message}: ${processesIn(folder).join(", ")}`);
    });
    await until(() => entriesOf(folder).length === 0, { what: "no file left" });
    for (const pid of told?.pids ?? []) assert.equal(isRunning(pid), false);
    for (const seed of told?.seeds ?? []) {
      await assert.rejects(rawCommand(seed, "PING"), { code: "KEYLANE_ERR_CONNECT" });
    }
  }

  test("after an end without stop()", async () => {
    const told = await begin("exit");
    assert.equal(await program!.ended, 0);
    await nothingLeft(told);
  });

  test("after an uncaught exception", async () => {
    const told = await begin("throw");
    assert.equal(await program!.ended, 1);
    assert.match(program!.errors(), /on purpose/);
    await nothingLeft(told);
  });

  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP", "SIGKILL"] as const) {
    test(`after ${signal}`, async () => {
      const told = await begin("wait");
      assert.ok(processesIn(folder).length >= 3, "two servers and the watchdog run");
      program!.kill(signal);
      assert.equal(await program!.ended, signal);
      await nothingLeft(told);
    });
  }

  test("after SIGKILL in the middle of starting", async () => {
    program = runProgram(CHILD, ["wait"], folder);
    await until(() => {
      const [home] = readdirSync(folder);
      return home !== undefined && existsSync(join(folder, home, "1", "node-1", "server.conf"));
    });
    program.kill("SIGKILL");
    assert.equal(await program.ended, "SIGKILL");
    await nothingLeft();
  });

  test("after SIGKILL with a paused server", async () => {
    const told = await begin("wait");
    process.kill(told.pids[0]!, "SIGSTOP");
    program!.kill("SIGKILL");
    await program!.ended;
    await nothingLeft(told);
  });

  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    test(`after \`keylane dev\` got ${signal}, which it takes for an orderly end`, async () => {
      program = runProgram(CLI, ["dev", "--json", "--primaries", "1", "--replicas", "0"], folder);
      const { domains } = JSON.parse(await program.firstLine) as { domains: Record<string, { nodes: string[] }> };
      assert.deepEqual(Object.keys(domains), ["user_profile", "freq_control", "realtime_billing"]);
      const seeds = Object.values(domains).flatMap(({ nodes }) => nodes);
      for (const seed of seeds) assert.equal(await rawCommand(seed, "PING"), "PONG");
      program.kill(signal);
      assert.equal(await program.ended, 0);
      await nothingLeft({ pids: [], seeds });
    });
  }
});

/** What `keylane dev` says on standard error when it fails as foreseen. */
async function complaint(env: NodeJS.ProcessEnv): Promise<string> {
  const folder = mkdtempSync(join(realpathSync(tmpdir()), "sandbox-test-"));
  const program = runProgram(CLI, ["dev"], folder, env);
  assert.equal(await program.ended, 1);
  await until(() => entriesOf(folder).length === 0);
  rmSync(folder, { recursive: true });
  return program.errors();
}

describe("without a server binary", () => {
  test("one line names the command to run", async () => {
    const errors = await complaint({ PATH: "/nowhere" });
    assert.match(
      errors,
      /^keylane: no valkey-server or redis-server was found; run: .*install .*\(KEYLANE_ERR_SANDBOX\)\n$/,
    );
  });

  test("a wrong KEYLANE_REDIS_SERVER is named", async () => {
    const errors = await complaint({ KEYLANE_REDIS_SERVER: process.execPath });
    assert.match(errors, /is not a Redis or Valkey server binary.*\(KEYLANE_ERR_SANDBOX\)\n$/);
  });
});
