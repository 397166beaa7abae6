/**
 * `keylane hotkeys --live`: the hot keys that the processes of a fleet tell each other, as they change. It only listens: what it
 * shows is what every process hears.
 */
import { clearScreenDown, moveCursor } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { KeylaneError } from "../../errors.js";
import { openSource } from "../../hotkeys/sources/open.js";
import type { SharedHotKey } from "../../hotkeys/sources/source.js";
import { resolveOptions } from "../../options.js";
import type { OpenOptions } from "../../options.js";
import { hotKeySourceSchema } from "../../options/hot-key-source.js";
import type { GivenSource } from "../../options/hot-key-source.js";
import { align, whole } from "../table.js";
import { shownKey } from "./key.js";

/** What the command line says. */
export interface LiveSearch {
  /** Where the processes tell: `redis://host:port`, `file:FOLDER`, or the source's options as JSON. */
  readonly source: string | undefined;
  /** Options of `open`: their `hotKeys.source`, and the domain it may name. */
  readonly options: OpenOptions | undefined;
  readonly domain: string | undefined;
  readonly prefix: string;
  readonly top: number;
  /** Undefined: until interrupted. */
  readonly seconds: number | undefined;
  readonly json: boolean;
  readonly signal: AbortSignal;
}

/** How long the source may take to end. */
const STOP_MS = 1000;

/**
 * Shows the hot set at every change until the time is over. Whether the source could be heard at the end.
 *
 * @throws KeylaneError `KEYLANE_ERR_OPTIONS`
 */
export async function showLive(search: LiveSearch): Promise<boolean> {
  const { signal, seconds, json, options, domain, prefix, top } = search;
  const lanes = options === undefined ? [] : resolveOptions({ ...options, hotKeys: false }).lanes;
  const source = openSource(givenSource(search), (name) => lanes.find((lane) => lane.domain === name));
  const screen = json ? lineByLine : onScreen(process.stdout);
  const began = performance.now();
  let trouble: Error | null = null;
  const show = (others: readonly SharedHotKey[]): void => {
    const keys = others.filter((one) => (domain ?? one.domain) === one.domain && one.key.startsWith(prefix));
    screen(keys.slice(0, top), Math.round(performance.now() - began));
  };
  const troubled = (error: Error | null): void => {
    if (error !== null) console.error(`${source.name}: ${error.message}`);
    else if (trouble !== null) console.error(`${source.name}: is heard again`);
    trouble = error;
  };
  let heard = false;
  await source.start((others) => {
    heard = true;
    show(others);
  }, troubled);
  // A source that has nothing to tell tells nothing.
  if (!heard && trouble === null) show([]);
  await (seconds === undefined ? interrupted(signal) : sleep(seconds * 1000, undefined, { signal }).catch(() => {}));
  await source.stop(STOP_MS);
  return trouble === null;
}

function givenSource({ source: text, options }: LiveSearch): GivenSource {
  const given = text === undefined ? sourceIn(options) : sourceFrom(text);
  if (given === undefined) {
    throw new KeylaneError("KEYLANE_ERR_OPTIONS", "hotkeys --live: name --source, or options with hotKeys.source");
  }
  const parsed = hotKeySourceSchema.safeParse(given);
  if (parsed.success) return parsed.data;
  const faults = parsed.error.issues.map(({ path, message }) => [...path.map(String), message].join(": "));
  throw new KeylaneError("KEYLANE_ERR_OPTIONS", `hotkeys --live: source: ${faults.join("; ")}`);
}

function sourceIn(options: OpenOptions | undefined): unknown {
  const hotKeys = options?.hotKeys as { readonly source?: unknown } | false | undefined;
  return hotKeys === false ? undefined : hotKeys?.source;
}

function sourceFrom(text: string): unknown {
  if (/^rediss?:/.test(text)) return { kind: "redis", url: text };
  if (text.startsWith("file:")) return { kind: "file", directory: text.slice("file:".length) };
  try {
    return JSON.parse(text);
  } catch {
    throw new KeylaneError("KEYLANE_ERR_OPTIONS", "hotkeys --live: --source is redis://…, file:FOLDER or JSON");
  }
}

type Show = (keys: readonly SharedHotKey[], atMs: number) => void;

const lineByLine: Show = (keys, atMs) => {
  console.log(JSON.stringify({ atMs, keys }));
};

/** A terminal shows the newest table in place of the last; elsewhere they follow each other. */
function onScreen(out: NodeJS.WriteStream): Show {
  let lines = 0;
  return (keys, atMs) => {
    const rows = keys.map(({ domain, key, level, rate, replicas }) => [
      shownKey(Buffer.from(key)),
      domain,
      level,
      whole(rate),
      String(replicas.length),
    ]);
    const head = [`hot keys after ${(atMs / 1000).toFixed(1)} s`, "domain", "level", "ops/s", "copies"];
    const table = [...align([head, ...rows]), ...(rows.length === 0 ? ["(none)"] : []), ""];
    if (out.isTTY && lines > 0) {
      moveCursor(out, 0, -lines);
      clearScreenDown(out);
    }
    out.write(`${table.join("\n")}\n`);
    lines = table.length;
  };
}

function interrupted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  // A pending promise alone does not keep the process alive.
  const alive = setInterval(() => undefined, 1 << 30);
  return new Promise((resolve) => {
    signal.addEventListener("abort", () => {
      clearInterval(alive);
      resolve();
    });
  });
}
