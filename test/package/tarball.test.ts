/** The tarball holds what a user needs, works outside the checkout, and its types do too. */
import assert from "node:assert/strict";
import { readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { CHECKOUT, type PackedProject, packedProject } from "../support/packed.js";

const SCRIPT = `
import { Keylane, KeylaneError, nativeInfo } from "keylane";
import { startCluster } from "keylane/sandbox";

const cluster = await startCluster({ primaries: 3 });
const lanes = await Keylane.open({
  domains: { user_profile: { prefixes: ["up:"], nodes: cluster.seeds, codec: "json" } },
});
try {
  const keys = Array.from({ length: 20 }, (_, index) => \`up:\${index}\`);
  await Promise.all(keys.map((key, index) => lanes.set(key, { index })));
  const values = await lanes.getMany([...keys, "up:absent"]);
  const refusal = await lanes.get("xx:1").catch((error) => error instanceof KeylaneError && error.code);
  console.log(JSON.stringify({ kind: nativeInfo().kind, values, refusal, slot: lanes.route("up:{bar}").slot }));
} finally {
  await lanes.close();
  await cluster.stop();
}
`;

const TYPED = `
import { Keylane, KeylaneError } from "keylane";
import { startCluster, type SandboxCluster } from "keylane/sandbox";

export async function use(cluster: SandboxCluster): Promise<string | null> {
  await using lanes = await Keylane.open({ domains: { user_profile: { prefixes: ["up:"], nodes: cluster.seeds } } });
  const domain: string = lanes.route("up:1").domain;
  await lanes.set("up:1", domain, { ttlMs: 1000 });
  // @ts-expect-error a time to live is a number
  await lanes.set("up:1", domain, { ttlMs: "1000" });
  // @ts-expect-error there is no such option
  await startCluster({ primary: 3 });
  return lanes.get("up:1").catch((error: unknown) => (error instanceof KeylaneError ? error.code : null));
}
`;

describe("the packed package", () => {
  let project: PackedProject;

  before(async () => {
    project = await packedProject();
  });
  after(() => rmSync(project.folder, { recursive: true, force: true }));

  test("holds what runs, what is built from, and nothing else", () => {
    const { files } = project;
    for (const file of ["dist/index.js", "dist/index.d.ts", "dist/sandbox/index.js", "dist/sandbox/index.d.ts"]) {
      assert.ok(files.includes(file), file);
    }
    for (const file of ["dist/sandbox/watchdog.js", "dist/cli/main.js", "LICENSE", "README.md", "package.json"]) {
      assert.ok(files.includes(file), file);
    }
    for (const file of ["Cargo.toml", "Cargo.lock", "crates/core/Cargo.toml", "crates/addon/Cargo.toml"]) {
      assert.ok(files.includes(file), file);
    }
    assert.equal(files.filter((file) => file.endsWith(".node")).length, 1);
    const allowed = /^(dist|src|crates)\/|^(package\.json|README\.md|LICENSE|Cargo\.(toml|lock)|rust-toolchain\.toml)$/;
    assert.deepEqual(
      files.filter((file) => !allowed.test(file)),
      [],
    );
    assert.deepEqual(
      files.filter((file) => /(^|\/)(target|node_modules|corpus|artifacts|test)\//.test(file)),
      [],
    );
    for (const source of files.filter((file) => file.startsWith("src/") && !/\.ts$|tsconfig/.test(file))) {
      assert.ok(files.includes(source.replace("src/", "dist/")), `${source} has its copy in dist`);
    }
  });

  test("opens a cluster and reads what it wrote", async () => {
    project.write("use.js", SCRIPT);
    const { stdout } = await project.run(process.execPath, "use.js");
    const told = JSON.parse(stdout) as { kind: string; values: unknown[]; refusal: string; slot: number };
    assert.equal(told.kind, "rust");
    assert.deepEqual(told.values, [...Array.from({ length: 20 }, (_, index) => ({ index })), null]);
    assert.equal(told.refusal, "KEYLANE_ERR_ROUTE");
    assert.equal(told.slot, 5061);
  });

  for (const moduleResolution of ["nodenext", "bundler"]) {
    test(`its types resolve with moduleResolution ${moduleResolution}`, async () => {
      project.write("typed.ts", TYPED);
      const tsc = join(CHECKOUT, "node_modules", "typescript", "bin", "tsc");
      const module = moduleResolution === "bundler" ? "esnext" : "nodenext";
      const options = [
        "--noEmit",
        "--strict",
        "--target",
        "es2022",
        "--lib",
        "es2023,esnext.disposable",
        "--types",
        "node",
      ];
      await project.run(
        process.execPath,
        tsc,
        ...options,
        "--module",
        module,
        "--moduleResolution",
        moduleResolution,
        "typed.ts",
      );
    });
  }

  test("its command runs and knows its version", async () => {
    const { version } = JSON.parse(readFileSync(join(CHECKOUT, "package.json"), "utf8")) as { version: string };
    const command = join("node_modules", "keylane", "dist", "cli", "main.js");
    assert.equal((await project.run(process.execPath, command, "--version")).stdout.trim(), version);
    assert.match((await project.run(process.execPath, command, "--help")).stdout, /dev \[options\]/);
  });
});
