/** Reads CLUSTER NODES and judges whether a cluster is whole: every live node sees the same, and all of it works. */
import type { SandboxNode } from "./node.js";
import { parseInfo } from "./resp.js";

export const SLOTS = 16_384;

/** One line of CLUSTER NODES. */
export interface NodeLine {
  readonly id: string;
  readonly host: string;
  readonly port: number;
  /** `myself`, `master`, `slave`, `fail?`, `fail`, `handshake`, `noaddr`, `nofailover`. */
  readonly flags: readonly string[];
  readonly primaryId: string | undefined;
  readonly linked: boolean;
  /** Config epoch: of two nodes that claim a slot, the one with the higher epoch owns it. */
  readonly epoch: number;
  /** Inclusive ranges. */
  readonly slots: readonly (readonly [from: number, to: number])[];
}

/** The lines of CLUSTER NODES. */
export function parseNodes(text: string): NodeLine[] {
  const lines = text.split("\n").filter((line) => line !== "");
  return lines.map((line) => {
    const [id = "", address = "", flags = "", primary = "-", , , epoch, link, ...slots] = line.split(" ");
    const [endpoint = ""] = address.split("@");
    const colon = endpoint.lastIndexOf(":");
    const ranges = slots.filter((slot) => !slot.startsWith("[")).map((slot) => slot.split("-").map(Number));
    return {
      id,
      host: endpoint.slice(0, colon),
      port: Number(endpoint.slice(colon + 1)),
      flags: flags.split(","),
      primaryId: primary === "-" ? undefined : primary,
      linked: link === "connected",
      epoch: Number(epoch),
      slots: ranges.map(([from = 0, to = from]) => [from, to] as const),
    };
  });
}

/** What one node answers about its cluster and itself. */
interface Answer {
  readonly lines: NodeLine[];
  readonly state: string | undefined;
  readonly replication: Map<string, string>;
}

async function ask(node: SandboxNode): Promise<Answer> {
  const [nodes, cluster, replication] = await Promise.all([
    node.command("CLUSTER", "NODES"),
    node.command("CLUSTER", "INFO"),
    node.command("INFO", "replication"),
  ]);
  const state = parseInfo(String(cluster)).get("cluster_state");
  return { lines: parseNodes(String(nodes)), state, replication: parseInfo(String(replication)) };
}

/**
 * Looks at all live nodes once, and brings their `role` and `primaryId` up to date.
 * @returns undefined when the cluster is whole, else what is wrong first.
 */
export async function ailment(live: readonly SandboxNode[], fullCoverage: boolean): Promise<string | undefined> {
  const answers = await Promise.all(
    live.map((node) => ask(node).catch((error: Error) => `${node.address}: ${error.message}`)),
  );
  const ids = new Set(live.map((node) => node.id));
  let agreed: string | undefined;
  for (const [index, answer] of answers.entries()) {
    if (typeof answer === "string") return answer;
    const problem = ailmentOf(answer, ids, fullCoverage);
    if (problem !== undefined) return `${live[index]!.address}: ${problem}`;
    const view = picture(answer.lines, ids);
    agreed ??= view;
    if (view !== agreed) return `${live[index]!.address} sees other roles or slots than ${live[0]!.address}`;
  }
  for (const line of (answers[0] as Answer | undefined)?.lines ?? []) {
    const node = live.find((candidate) => candidate.id === line.id);
    if (node === undefined) continue;
    node.role = line.flags.includes("slave") ? "replica" : "primary";
    node.primaryId = line.primaryId;
  }
  return undefined;
}

function ailmentOf(answer: Answer, ids: ReadonlySet<string>, fullCoverage: boolean): string | undefined {
  const seen = answer.lines.filter((line) => ids.has(line.id));
  if (seen.length < ids.size) return `knows ${seen.length} of ${ids.size} nodes`;
  for (const { id, flags, linked } of seen) {
    const bad = flags.find((flag) => flag === "fail" || flag === "fail?" || flag === "handshake" || flag === "noaddr");
    if (bad !== undefined) return `flags node ${id} as ${bad}`;
    if (!linked && !flags.includes("myself")) return `has no link to node ${id}`;
  }
  if (fullCoverage) {
    const covered = seen.reduce((sum, line) => sum + slotCount(line), 0);
    if (covered < SLOTS) return `sees ${covered} of ${SLOTS} slots covered by live nodes`;
    if (answer.state !== "ok") return `cluster_state is ${answer.state}`;
  }
  const link = answer.replication.get("master_link_status");
  return link === undefined || link === "up" ? undefined : "the link to its primary is down";
}

function slotCount(line: NodeLine): number {
  return line.slots.reduce((sum, [from, to]) => sum + to - from + 1, 0);
}

/** Roles and slots of the live nodes, as one comparable text. */
function picture(lines: readonly NodeLine[], ids: ReadonlySet<string>): string {
  const rows = lines
    .filter((line) => ids.has(line.id))
    .map(
      ({ id, flags, primaryId, slots }) =>
        `${id} ${flags.includes("slave") ? primaryId : "primary"} ${slots.join(" ")}`,
    );
  return rows.toSorted().join("\n");
}
