/** The package as users get it: packed by npm, unpacked into a project of its own, next to its declared dependencies only. */
import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, realpathSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const run = promisify(execFile);

/** The checkout that the tests run in. */
export const CHECKOUT = fileURLToPath(new URL("../../..", import.meta.url));

/** A project that depends on the packed keylane. */
export interface PackedProject {
  readonly folder: string;
  /** Paths in the tarball, without the leading `package/`. */
  readonly files: string[];
  /** Writes a file of the project. */
  write(name: string, text: string): void;
  /** Runs a program in the project; rejects with its output when it fails. */
  run(program: string, ...args: string[]): Promise<{ stdout: string; stderr: string }>;
}

/** Packs the checkout and makes the project; remove its folder yourself. */
export async function packedProject(): Promise<PackedProject> {
  const folder = mkdtempSync(join(realpathSync(tmpdir()), "packed-test-"));
  const npm = process.env["npm_execpath"];
  const pack = ["pack", "--json", "--ignore-scripts", "--pack-destination", folder];
  const command: [string, string[]] = npm?.endsWith("npm-cli.js") ? [process.execPath, [npm, ...pack]] : ["npm", pack];
  const { stdout } = await run(...command, { cwd: CHECKOUT, maxBuffer: 1 << 26 });
  const [packed] = JSON.parse(stdout) as [{ filename: string; files: { path: string }[] }];
  const target = join(folder, "node_modules", "keylane");
  mkdirSync(target, { recursive: true });
  await run("tar", ["-xzf", join(folder, packed.filename), "-C", target, "--strip-components=1"]);
  const manifest = JSON.parse(readFileSync(join(target, "package.json"), "utf8")) as {
    dependencies: Record<string, string>;
  };
  for (const name of [...Object.keys(manifest.dependencies), "@types/node"]) {
    const link = join(folder, "node_modules", name);
    mkdirSync(dirname(link), { recursive: true });
    symlinkSync(join(CHECKOUT, "node_modules", name), link);
  }
  const write = (name: string, text: string): void => writeFileSync(join(folder, name), text);
  write("package.json", JSON.stringify({ name: "project", private: true, type: "module" }));
  return {
    folder,
    files: packed.files.map(({ path }) => path),
    write,
    run: (program, ...args) => run(program, args, { cwd: folder, timeout: 120_000 }),
  };
}
