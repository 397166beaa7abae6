/** `keylane hotkeys --server`: its tables, JSON, notes and exit codes. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { useC3, useSingle } from "../../support/fixtures.js";
import { useLanes } from "../../support/lanes.js";

const CLI = fileURLToPath(new URL("cli/main.js", import.meta.resolve("keylane")));

interface Ended {
  readonly code: number;
  readonly out: string;
  readonly errors: string;
}

function run(...args: string[]): Promise<Ended> {
  return new Promise((resolve) => {
    execFile(process.execPath, [CLI, "hotkeys", ...args], (error, out, errors) => {
      resolve({ code: error === null ? 0 : Number(error.code), out, errors });
    });
  });
}

describe("keylane hotkeys --server", () => {
  const c3 = useC3({ config: { "maxmemory-policy": "allkeys-lfu", "lfu-log-factor": 1 } });
  const single = useSingle();
  const lanes = useLanes(() => ({ domains: { all: { prefixes: [""], nodes: c3.value.seeds } } }));
  before(async () => {
    await Promise.all(Array.from({ length: 50 }, (_, i) => lanes.value.set(`up:${i}`, "v")));
    await lanes.value.set("fc:busy\n", "v");
    for (let round = 0; round < 10; round += 1) {
      await Promise.all(Array.from({ length: 100 }, () => lanes.value.get("up:7")));
    }
  });

  it("prints a table with the hottest key first, and ends with 0", async () => {
    const { code, out, errors } = await run("--server", "--nodes", c3.value.seeds.join(), "--top", "3");
    assert.equal(code, 0, errors);
    const [head, first, ...rest] = out.trimEnd().split("\n");
    assert.match(head!, /^by OBJECT FREQ .* node +slot +counter$/);
    assert.match(first!, /^up:7 /);
    assert.equal(rest.length, 2);
    assert.match(errors, new RegExp(`${c3.value.seeds[0]}: looked at \\d+ keys`));
  });

  it("prints JSON, of keys with a prefix only", async () => {
    const { code, out } = await run("--nodes", c3.value.seeds[0]!, "--prefix", "fc:", "--json");
    const { keys, nodes } = JSON.parse(out) as { keys: Record<string, unknown>[]; nodes: Record<string, unknown>[] };
    assert.equal(code, 0);
    assert.deepEqual(
      keys.map(({ key, finder }) => [key, finder]),
      [["fc:busy\n", "frequency"]],
    );
    assert.deepEqual(new Set(nodes.map(({ node }) => node)), new Set(c3.value.seeds));
  });

  it("ends with 2 when a primary told nothing, and names its policy", async () => {
    const [odd] = c3.value.primaries;
    await odd!.command("CONFIG", "SET", "maxmemory-policy", "allkeys-random");
    after(() => odd!.command("CONFIG", "SET", "maxmemory-policy", "allkeys-lfu"));
    const { code, out, errors } = await run("--nodes", c3.value.seeds[0]!);
    assert.equal(code, 2);
    assert.match(out, /^by OBJECT FREQ/);
    assert.match(errors, new RegExp(`^${odd!.address}: .*maxmemory-policy is allkeys-random$`, "m"));
  });

  it("ends with 1 when none told any; a server outside of a cluster is asked as well", async () => {
    const folder = mkdtempSync(join(tmpdir(), "keylane-hotkeys-"));
    after(() => rmSync(folder, { recursive: true }));
    const file = join(folder, "options.json");
    const domains = { one: { prefixes: ["up:"], nodes: [single.value.address], mode: "single" } };
    writeFileSync(file, JSON.stringify({ domains, ledger: { directory: folder, domain: "one" } }));
    for (const where of [
      ["--nodes", single.value.address],
      ["--options", file, "--domain", "one"],
    ]) {
      const { code, out, errors } = await run(...where);
      assert.deepEqual([code, out], [1, ""]);
      assert.match(errors, /^keylane: .*maxmemory-policy is noeviction \(KEYLANE_ERR_UNSUPPORTED\)$/m);
    }
    const { code, errors } = await run("--options", file, "--domain", "other");
    assert.equal(code, 1);
    assert.match(errors, /no domain "other" \(KEYLANE_ERR_OPTIONS\)/);
    assert.match((await run()).errors, /name --nodes or --options/);
  });
});
