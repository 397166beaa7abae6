/** `keylane hotkeys --server`: asks all primaries, shows how far they are, and prints what they told. */
import { findOnServers } from "../../hotkeys/server-side.js";
import type { Finder, Findings, FoundKey, NodeFindings } from "../../hotkeys/server-side.js";
import type { RawClient } from "../../lane/raw.js";
import { align, whole } from "../table.js";
import { openBar } from "./bar.js";
import { jsonKey, shownKey } from "./key.js";

/** What the command line says. */
export interface ServerSearch {
  readonly top: number;
  readonly prefix: string;
  readonly rate: number;
  readonly seconds: number;
  readonly enable?: boolean;
  readonly json?: boolean;
  readonly signal: AbortSignal;
}

/** Heading of each finder's table, and its columns beside the key. */
const TABLES: Readonly<Record<Finder, { readonly title: string; readonly columns: readonly Column[] }>> = {
  "hotkeys-redis": {
    title: "counted by HOTKEYS while watched",
    columns: [
      ["CPU µs", ({ cpuMicros }) => cpuMicros],
      ["bytes", ({ bytes }) => bytes],
    ],
  },
  "hotkeys-valkey": {
    title: "of the last window of HOTKEYS",
    columns: [["accesses/s", ({ perSecond }) => perSecond]],
  },
  frequency: {
    title: "by OBJECT FREQ (logarithmic: it ranks, it is no rate)",
    columns: [["counter", ({ frequency }) => frequency]],
  },
};

type Column = readonly [name: string, value: (key: FoundKey) => number | undefined];

/**
 * Prints the findings. Whether every primary told its keys, to the end.
 *
 * @throws KeylaneError what the first primary refused, when none told any
 */
export async function findAtServers(client: RawClient, search: ServerSearch): Promise<boolean> {
  const { json = false, enable = false, ...rest } = search;
  const bar = openBar(process.stderr);
  let findings: Findings;
  try {
    findings = await findOnServers(client, { ...rest, enable, progress: (progress) => bar.update(progress) });
  } finally {
    bar.stop();
  }
  const { nodes, slots } = findings;
  const refused = nodes.filter(({ finder }) => finder === null);
  if (refused.length === nodes.length && slots.length === 0) throw refused[0]!.refused!;
  if (json) console.log(asJson(findings));
  else {
    console.log(asText(findings));
    for (const line of nodes.flatMap(remarks)) console.error(line);
  }
  return nodes.every(({ finder, complete }) => finder !== null && complete);
}

function asText({ keys, slots, nodes }: Findings): string {
  const out: string[] = [];
  for (const [finder, { title, columns }] of Object.entries(TABLES)) {
    const found = keys.filter((key) => key.finder === finder);
    if (!nodes.some((node) => node.finder === finder)) continue;
    const rows = found.map((key) => [
      shownKey(key.key),
      key.node,
      key.slot === null ? "" : String(key.slot),
      ...columns.map(([, value]) => cell(value(key))),
    ]);
    const head = [title, "node", "slot", ...columns.map(([name]) => name)];
    out.push("", ...align([head, ...rows]), ...(found.length === 0 ? ["(none)"] : []));
  }
  if (slots.length > 0) {
    const rows = slots.map(({ slot, node, keys: held, cpuShare, bytesIn, bytesOut }) => [
      String(slot),
      node,
      whole(held),
      (cpuShare * 100).toFixed(1),
      whole(bytesIn),
      whole(bytesOut),
    ]);
    out.push("", ...align([["hottest slots", "node", "keys", "CPU %", "bytes in/s", "bytes out/s"], ...rows]));
  }
  return out.slice(1).join("\n");
}

function cell(value: number | undefined): string {
  return value === undefined ? "" : whole(value);
}

/** What there is to say of a primary beside its keys. */
function remarks({ node, finder, refused, notes, looked, skipped, complete }: NodeFindings): string[] {
  const lines = notes.map((note) => (note.startsWith(node) ? note : `${node}: ${note}`));
  if (refused !== null) lines.push(`${refused.message.startsWith(node) ? "" : `${node}: `}${refused.message}`);
  if (finder === "frequency") {
    const rest = skipped === 0 ? "" : `, ${whole(skipped)} of them gone or moved`;
    lines.push(`${node}: looked at ${whole(looked)} keys${rest}${complete ? "" : ", not all"}`);
  }
  return lines;
}

function asJson({ keys, slots, nodes }: Findings): string {
  const told = nodes.map(({ node, server, finder, refused, notes, looked, skipped, complete, watchedMs }) => {
    const reason = refused === null ? null : { code: refused.code, message: refused.message };
    return { node, server, finder, refused: reason, notes, looked, skipped, complete, watchedMs };
  });
  return JSON.stringify({
    keys: keys.map(({ key, ...rest }) => Object.assign(jsonKey(key), rest)),
    slots,
    nodes: told,
  });
}
