/**
 * A disk that takes no more: what cannot be made durable is refused with a typed error, what was acknowledged stays, also through
 * `kill -9`, and the ledger goes on when there is room again. By a limit of the process's file sizes, and, where this user may
 * mount one, by a file system of 256 KiB that is really full.
 */
import assert from "node:assert/strict";
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { scanFolder } from "#dist/ledger/scan.js";
import type { FullDiskOrder, FullDiskReport } from "../../support/full-disk.js";
import { makeFolder } from "../../support/ledger.js";

const PROGRAM = fileURLToPath(new URL("../../support/full-disk.js", import.meta.url));
/** Of `ulimit -f`: 64 or 128 KiB, as the shell counts. */
const BLOCKS = 128;

/** A way to have no room. */
interface Disk {
  readonly folder: string;
  readonly segmentBytes: number;
  /** Shell commands in front of the program. */
  readonly before: string;
  readonly makeRoom: (pid: number) => void;
}

class Program {
  readonly #child: ChildProcess;

  constructor({ folder, segmentBytes, before }: Disk) {
    const args = ["-c", `${before}exec "$0" "$@"`, process.execPath, PROGRAM, folder, String(segmentBytes)];
    this.#child = spawn("sh", args, { stdio: ["ignore", "inherit", "inherit", "ipc"] });
    after(() => this.kill());
  }

  get pid(): number {
    return this.#child.pid!;
  }

  async tell(order: FullDiskOrder): Promise<FullDiskReport> {
    this.#child.send(order);
    const [report] = (await once(this.#child, "message")) as [FullDiskReport];
    return report;
  }

  async kill(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    this.#child.kill("SIGKILL");
    await once(this.#child, "exit");
  }
}

function liftLimit(pid: number): void {
  const { status, stderr } = spawnSync("prlimit", ["--pid", String(pid), "--fsize=unlimited"], { encoding: "utf8" });
  assert.equal(status, 0, stderr);
}

function limited(): Disk {
  return { folder: makeFolder(), segmentBytes: 16 << 20, before: `ulimit -S -f ${BLOCKS}; `, makeRoom: liftLimit };
}

/** Mounts a small file system; null where this user may not. */
function mountSmall(): { readonly folder: string; readonly end: () => void } | null {
  const folder = mkdtempSync(join(tmpdir(), "keylane-full-"));
  const mounted = spawnSync("mount", ["-t", "tmpfs", "-o", "size=256k", "tmpfs", folder]).status === 0;
  const end = (): void => {
    if (mounted) spawnSync("umount", [folder]);
    rmdirSync(folder);
  };
  if (mounted) return { folder, end };
  end();
  return null;
}

function small(): Disk {
  const { folder, end } = mountSmall()!;
  after(end);
  const filler = join(folder, "filler");
  writeFileSync(filler, Buffer.alloc(64 << 10));
  return { folder: join(folder, "spool"), segmentBytes: 32 << 10, before: "", makeRoom: () => rmSync(filler) };
}

function idsIn(folder: string): string[] {
  const ids: string[] = [];
  scanFolder(folder, ({ id }) => ids.push(id));
  return ids;
}

/** Adds entries until the disk is full. */
async function fill(disk: Disk): Promise<{ readonly program: Program; readonly full: FullDiskReport }> {
  const program = new Program(disk);
  const full = await program.tell("fill");
  assert.ok(full.acknowledged.length > 100, `only ${full.acknowledged.length} were taken`);
  assert.ok(full.refused.length > 0);
  for (const { code, outcome, retryable } of full.faults) {
    assert.deepEqual([code, outcome, retryable], ["KEYLANE_ERR_SPOOL", "not-sent", true]);
  }
  return { program, full };
}

function describeFull(name: string, make: () => Disk): void {
  describe(name, () => {
    it("refuses what it cannot make durable, and goes on when there is room", async () => {
      const disk = make();
      const { program, full } = await fill(disk);
      disk.makeRoom(program.pid);
      const later = await program.tell("more");
      assert.equal(later.balance, String(later.acknowledged.length));
      assert.ok(later.acknowledged.length >= full.acknowledged.length + 120);
      await program.kill();
      assert.deepEqual(idsIn(disk.folder), later.acknowledged);
    });

    it("has what was acknowledged and nothing else when the process dies meanwhile", async () => {
      const disk = make();
      const { program, full } = await fill(disk);
      await program.kill();
      assert.deepEqual(idsIn(disk.folder), full.acknowledged);
    });
  });
}

describeFull("a ledger whose files cannot grow", limited);
const probe = mountSmall();
probe?.end();
if (probe !== null) describeFull("a ledger on a full disk", small);
