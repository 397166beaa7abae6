/** `keylane ledger verify`: agreement, every kind of difference, and its exit codes. */
import assert from "node:assert/strict";
import { existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { Keylane } from "keylane";
import { useSingle } from "../../support/fixtures.js";
import { openLanes } from "../../support/lanes.js";
import { ledgerOptions, makeFolder } from "../../support/ledger.js";
import { runProgram } from "../../support/processes.js";

const CLI = new URL("cli/main.js", import.meta.resolve("keylane")).pathname;

interface Told {
  readonly code: number | string;
  readonly result: { entries: number; waiting: number; sum: string; differences: Record<string, string>[] } | null;
  readonly errors: string;
}

describe("keylane ledger verify", () => {
  const single = useSingle();

  async function verify(directory: string, more: readonly string[] = []): Promise<Told> {
    const file = join(makeFolder(), "options.json");
    writeFileSync(file, JSON.stringify(ledgerOptions([single.value.address], { directory })));
    const program = runProgram(CLI, ["ledger", "verify", "--options", file, "--json", ...more], directory);
    const line = await program.firstLine.catch(() => null);
    const code = await program.ended;
    return { code, result: line === null ? null : (JSON.parse(line) as Told["result"]), errors: program.errors() };
  }

  it("agrees, beside the process that owns the spool, with duplicates and entries that wait", async () => {
    const directory = makeFolder();
    const { ledger } = await openLanes(ledgerOptions([single.value.address], { directory }));
    for (let n = 0; n < 50; n += 1) await ledger.add(`agree:${n % 3}`, BigInt(n), { id: `${n % 40}` });
    await ledger.flush();
    const { code, result } = await verify(directory);
    assert.deepEqual([code, result!.entries, result!.waiting, result!.sum], [0, 50, 0, "1225"]);
    assert.deepEqual(result!.differences, []);
  });

  it("lists what differs, and ends with 2", async () => {
    const directory = makeFolder();
    const lanes = await Keylane.open(ledgerOptions([single.value.address], { directory }));
    for (const account of ["v:lost", "v:changed", "v:sound"]) {
      await lanes.ledger.add(account, 7n, { id: "1" });
      await lanes.ledger.add(account, 8n, { id: "2" });
    }
    await lanes.ledger.flush();
    await lanes.close();
    const { node } = single.value;
    await node.command("HINCRBY", "rb:ledger:{v:changed}", "balance", 3);
    const fields = (await node.command("HKEYS", "rb:ledger:{v:lost}")) as string[];
    const count = fields.find((name) => name.endsWith(":count"))!;
    await node.command("HINCRBY", "rb:ledger:{v:lost}", count, -1);
    const { code, result } = await verify(directory);
    assert.equal(code, 2);
    assert.deepEqual(result!.differences, [
      { account: "v:lost", what: "count", expected: "2", found: "1" },
      { account: "v:changed", what: "balance", expected: "15", found: "18" },
    ]);
  });

  it("entries lost at the servers wait in the spool, and agree again once they are booked", async () => {
    const directory = makeFolder();
    const lanes = await Keylane.open(ledgerOptions([single.value.address], { directory }));
    await lanes.ledger.add("v:flushed", 7n, { id: "1" });
    await lanes.ledger.flush();
    await lanes.close();
    await single.value.node.command(
      "DEL",
      "rb:ledger:{v:flushed}",
      "rb:ledger:{v:flushed}:ids0",
      "rb:ledger:{v:flushed}:ids1",
    );
    const before = await verify(directory);
    assert.deepEqual([before.code, before.result!.waiting], [0, 1]);
    const again = await openLanes(ledgerOptions([single.value.address], { directory }));
    await again.ledger.flush();
    const after = await verify(directory);
    assert.deepEqual([after.code, after.result!.waiting], [0, 0]);
    assert.equal(await again.ledger.balance("v:flushed"), 7n);
  });

  it("a spool that cannot be read, and missing options, end with 1 and say why", async () => {
    const damaged = makeFolder();
    writeFileSync(join(damaged, "spool.json"), "no");
    const { code, errors } = await verify(damaged);
    assert.equal(code, 1);
    assert.match(errors, /spool\.json: it cannot be read.*\(KEYLANE_ERR_SPOOL\)/);
    const empty = join(makeFolder(), "empty");
    mkdirSync(empty);
    assert.deepEqual([(await verify(empty)).code, readdirSync(empty)], [0, []]);
    const missing = join(makeFolder(), "missing");
    const none = await verify(missing);
    assert.deepEqual([none.code, existsSync(missing)], [1, false]);
    assert.match(none.errors, /missing: it cannot be read: ENOENT.*\(KEYLANE_ERR_SPOOL\)/);
    const folder = makeFolder();
    const bare = runProgram(CLI, ["ledger", "verify", "--directory", folder], folder);
    assert.equal(await bare.ended, 1);
    assert.match(bare.errors(), /name --nodes or --options/);
  });
});
