/** How far the primaries are together: a bar on a terminal, elsewhere a line a second. */
import progress from "cli-progress";
import type { Progress } from "../../hotkeys/server-side.js";
import { whole } from "../table.js";

const EVERY_MS = 1000;

export interface Bar {
  update(progress: Progress): void;
  stop(): void;
}

/** Opens one that shows nothing before its first update. */
export function openBar(out: NodeJS.WriteStream): Bar {
  const nodes = new Map<string, Progress>();
  const show = out.isTTY ? terminal(out) : lines(out);
  return {
    update(one) {
      nodes.set(one.node, one);
      show.line(shareOf(nodes), lineOf(nodes));
    },
    stop: () => show.stop(),
  };
}

interface Shown {
  line(share: number, text: string): void;
  stop(): void;
}

function terminal(out: NodeJS.WriteStream): Shown {
  const format = { format: "{line}  {bar}", stream: out, barsize: 30, clearOnComplete: true, gracefulExit: false };
  const bar = new progress.SingleBar({ ...format, hideCursor: false }, progress.Presets.shades_classic);
  let started = false;
  return {
    line(share, line) {
      if (!started) bar.start(100, 0, { line });
      started = true;
      bar.update(Math.round(share * 100), { line });
    },
    stop: () => bar.stop(),
  };
}

function lines(out: NodeJS.WriteStream): Shown {
  let last = performance.now();
  return {
    line(_, line) {
      const now = performance.now();
      if (now - last < EVERY_MS) return;
      last = now;
      out.write(`${line}\n`);
    },
    stop: () => undefined,
  };
}

function shareOf(nodes: ReadonlyMap<string, Progress>): number {
  const shares = Array.from(nodes.values(), ({ done, total }) => (total === 0 ? 1 : done / total));
  return shares.reduce((sum, share) => sum + share, 0) / shares.length;
}

function lineOf(nodes: ReadonlyMap<string, Progress>): string {
  const parts: string[] = [];
  const all = [...nodes.values()];
  const scans = all.filter(({ unit }) => unit === "keys");
  const watches = all.filter(({ unit }) => unit === "ms");
  if (scans.length > 0) parts.push(`${whole(sum(scans, "done"))} of ${whole(sum(scans, "total"))} keys`);
  if (watches.length > 0) {
    const least = Math.min(...watches.map(({ done }) => done));
    parts.push(`watched ${(least / 1000).toFixed(1)} of ${(watches[0]!.total / 1000).toFixed(0)} s`);
  }
  return parts.join(", ");
}

function sum(of: readonly Progress[], which: "done" | "total"): number {
  return of.reduce((n, one) => n + one[which], 0);
}
