/** What the stub says, and how it looks on the wire in both protocol versions. */
import { createHash } from "node:crypto";

/** What a script may answer: text and bytes as bulk strings, arrays nested; undefined sends nothing at all. */
export type StubReply =
  | string
  | number
  | bigint
  | boolean
  | null
  | undefined
  | Uint8Array
  | Raw
  | Simple
  | Failure
  | Fields
  | StubReply[];

/** Bytes as they go over the wire. */
export class Raw {
  constructor(readonly bytes: Uint8Array) {}
}
/** A simple string. */
export class Simple {
  constructor(readonly text: string) {}
}
/** An error reply. */
export class Failure {
  constructor(readonly text: string) {}
}
/** A map: `%n` in RESP3, an array of names and values in RESP2. */
export class Fields {
  constructor(readonly fields: Readonly<Record<string, StubReply>>) {}
}

export const raw = (bytes: string | Uint8Array): Raw => new Raw(typeof bytes === "string" ? Buffer.from(bytes) : bytes);
export const simple = (text: string): Simple => new Simple(text);
export const failure = (text: string): Failure => new Failure(text);
export const fields = (entries: Readonly<Record<string, StubReply>>): Fields => new Fields(entries);
export const OK = simple("OK");

/** The bytes of a reply. */
export function encodeReply(reply: StubReply, protocol: 2 | 3): Buffer {
  if (reply instanceof Raw) return Buffer.from(reply.bytes);
  if (reply instanceof Simple) return Buffer.from(`+${reply.text}\r\n`);
  if (reply instanceof Failure) return Buffer.from(`-${reply.text}\r\n`);
  if (reply === null || reply === undefined) return Buffer.from(protocol === 3 ? "_\r\n" : "$-1\r\n");
  if (typeof reply === "boolean")
    return Buffer.from(protocol === 3 ? `#${reply ? "t" : "f"}\r\n` : `:${Number(reply)}\r\n`);
  if (typeof reply === "number" || typeof reply === "bigint") return Buffer.from(`:${reply}\r\n`);
  if (Array.isArray(reply)) return aggregate(`*${reply.length}`, reply, protocol);
  if (reply instanceof Fields) {
    const items = Object.entries(reply.fields).flat();
    return aggregate(protocol === 3 ? `%${items.length / 2}` : `*${items.length}`, items, protocol);
  }
  const bytes = Buffer.from(reply as string);
  return Buffer.concat([Buffer.from(`$${bytes.length}\r\n`), bytes, Buffer.from("\r\n")]);
}

function aggregate(head: string, items: readonly StubReply[], protocol: 2 | 3): Buffer {
  return Buffer.concat([Buffer.from(`${head}\r\n`), ...items.map((item) => encodeReply(item, protocol))]);
}

/** A node as CLUSTER SLOTS and SHARDS report it; a null host stands for "the address you asked". */
export interface StubNode {
  readonly host: string | null;
  readonly port: number;
  readonly id?: string;
  readonly hostname?: string;
}

/** A share of the slots and who serves it: primary first, then replicas. */
export interface StubRange {
  readonly from: number;
  readonly to: number;
  readonly nodes: readonly StubNode[];
}

/** A node id that depends on the address alone. */
export function stubId(address: string): string {
  return createHash("sha1").update(address).digest("hex");
}

function idOf(node: StubNode): string {
  return node.id ?? stubId(`${node.host}:${node.port}`);
}

/** The reply to CLUSTER SLOTS. */
export function slotRows(ranges: readonly StubRange[]): StubReply {
  return ranges.map(({ from, to, nodes }) => {
    const row: StubReply[] = [from, to];
    for (const node of nodes) {
      row.push([node.host, node.port, idOf(node), node.hostname === undefined ? [] : ["hostname", node.hostname]]);
    }
    return row;
  });
}

/** The reply to CLUSTER SHARDS. */
export function shardRows(ranges: readonly StubRange[]): StubReply {
  const shards = new Map<string, StubRange[]>();
  for (const range of ranges) {
    const id = idOf(range.nodes[0]!);
    shards.set(id, [...(shards.get(id) ?? []), range]);
  }
  return Array.from(shards.values(), (parts) =>
    fields({ slots: parts.flatMap(({ from, to }) => [from, to]), nodes: parts[0]!.nodes.map(shardNode) }),
  );
}

function shardNode(node: StubNode, index: number): StubReply {
  return fields({
    id: idOf(node),
    port: node.port,
    ip: node.host ?? "",
    endpoint: node.hostname ?? node.host,
    role: index === 0 ? "master" : "replica",
    "replication-offset": 0,
    health: "online",
  });
}
