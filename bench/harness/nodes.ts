/**
 * The servers' side of a benchmark: a cluster, which primary serves which slot, and bulk loading over bare sockets. Shares
 * no code with keylane or a peer, so what they read was written by neither. The invariant: `load` returns only after the
 * servers acknowledged every key.
 */
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import keySlot from "cluster-key-slot";
import { keyAt, type KeySpec, valueAt } from "./keys.js";

/** A primary and the slots it serves. */
export interface Primary {
  readonly host: string;
  readonly port: number;
}

/** The primaries of a cluster and, per slot, the index of its primary. */
export interface SlotMap {
  readonly primaries: readonly Primary[];
  readonly owner: Int8Array;
}

/** Splits `host:port` at the last colon. */
export function parseNode(node: string): Primary {
  const colon = node.lastIndexOf(":");
  const port = Number(node.slice(colon + 1));
  if (colon < 1 || !Number.isInteger(port) || port < 1 || port > 65_535) throw new Error(`${node} is not host:port`);
  return { host: node.slice(0, colon), port };
}

/** A command as RESP bytes in text; arguments must be ASCII. */
export function encodeCommand(...args: readonly string[]): string {
  return `*${args.length}\r\n${args.map((arg) => `$${arg.length}\r\n${arg}\r\n`).join("")}`;
}

async function dial(node: Primary): Promise<Socket> {
  const socket = connect({ host: node.host, port: node.port, noDelay: true });
  await once(socket, "connect");
  return socket;
}

/** Text of the one bulk string that answers `command`. */
async function askBulk(node: Primary, ...command: string[]): Promise<string> {
  const socket = await dial(node);
  try {
    socket.setEncoding("latin1").write(encodeCommand(...command));
    let text = "";
    for await (const piece of socket) {
      text += piece as string;
      if (text.startsWith("-")) throw new Error(`${node.host}:${node.port} answered ${text.trim()}`);
      const line = text.indexOf("\r\n");
      const total = line < 0 ? Infinity : line + 2 + Number(text.slice(1, line)) + 2;
      if (text.length >= total) return text.slice(line + 2, total - 2);
    }
    throw new Error(`${node.host}:${node.port} closed the connection`);
  } finally {
    socket.destroy();
  }
}

/** Asks `seed` for the slot map (CLUSTER NODES). */
export async function slotMap(seed: string): Promise<SlotMap> {
  const text = await askBulk(parseNode(seed), "CLUSTER", "NODES");
  const primaries: Primary[] = [];
  const owner = new Int8Array(16_384).fill(-1);
  for (const line of text.split("\n")) {
    const fields = line.trim().split(" ");
    if (fields.length < 9 || !fields[2].includes("master")) continue;
    const index = primaries.push(parseNode(fields[1].split("@")[0])) - 1;
    for (const range of fields.slice(8)) {
      if (range.startsWith("[")) continue;
      const [first, last = first] = range.split("-").map(Number);
      owner.fill(index, first, last + 1);
    }
  }
  if (owner.includes(-1)) throw new Error(`the cluster behind ${seed} does not serve all slots`);
  return { primaries, owner };
}

/** Version of a server, e.g. `redis 7.0.15`. */
export async function serverVersion(seed: string): Promise<string> {
  const info = await askBulk(parseNode(seed), "INFO", "server");
  const valkey = /^valkey_version:(\S+)/m.exec(info);
  return valkey === null ? `redis ${/^redis_version:(\S+)/m.exec(info)?.[1] ?? "?"}` : `valkey ${valkey[1]}`;
}

/** `host:port` of the primary that serves a key. */
export async function ownerOf(seed: string, key: string): Promise<string> {
  const { primaries, owner } = await slotMap(seed);
  const { host, port } = primaries[owner[keySlot(key)]];
  return `${host}:${port}`;
}

/** How many GETs each primary has answered since it was started, by its `host:port`. */
export async function getsByNode(seed: string): Promise<Map<string, number>> {
  const { primaries } = await slotMap(seed);
  const infos = await Promise.all(primaries.map((node) => askBulk(node, "INFO", "commandstats")));
  const calls = infos.map((info) => Number(/^cmdstat_get:calls=(\d+)/m.exec(info)?.[1] ?? 0));
  return new Map(primaries.map(({ host, port }, i) => [`${host}:${port}`, calls[i]]));
}

const LOAD_CHUNK = 20_000;
const OK = "+OK\r\n";

/** Writes every key of `spec` with its value. */
export function load(seed: string, spec: KeySpec): Promise<void> {
  return setAcross(
    seed,
    spec.count,
    (i) => keyAt(spec, i),
    (i) => valueAt(i),
  );
}

/** Writes `count` keys to the cluster behind `seed`. */
export async function setAcross(
  seed: string,
  count: number,
  keyOf: (i: number) => string,
  valueOf: (i: number) => string,
): Promise<void> {
  const { primaries, owner } = await slotMap(seed);
  const sockets = await Promise.all(primaries.map(dial));
  try {
    for (let from = 0; from < count; from += LOAD_CHUNK) {
      const frames: string[][] = primaries.map(() => []);
      for (let i = from; i < Math.min(count, from + LOAD_CHUNK); i += 1) {
        const key = keyOf(i);
        frames[owner[keySlot(key)]].push(encodeCommand("SET", key, valueOf(i)));
      }
      await Promise.all(sockets.map((socket, n) => acknowledge(socket, frames[n])));
    }
  } finally {
    for (const socket of sockets) socket.destroy();
  }
}

/** Sends `count` SETs, `frame(0)` … `frame(count - 1)`, to one server. */
export async function setAll(address: string, count: number, frame: (i: number) => string): Promise<void> {
  const socket = await dial(parseNode(address));
  try {
    for (let from = 0; from < count; from += LOAD_CHUNK) {
      const length = Math.min(LOAD_CHUNK, count - from);
      await acknowledge(
        socket,
        Array.from({ length }, (_, i) => frame(from + i)),
      );
    }
  } finally {
    socket.destroy();
  }
}

/** Sends `frames` and waits for as many `+OK`. */
function acknowledge(socket: Socket, frames: readonly string[]): Promise<void> {
  if (frames.length === 0) return Promise.resolve();
  const expected = OK.repeat(frames.length);
  return new Promise((resolve, reject) => {
    let text = "";
    const onData = (piece: Buffer): void => {
      text += piece.toString("latin1");
      if (text.length < expected.length && expected.startsWith(text)) return;
      socket.off("data", onData).off("error", reject);
      if (text === expected) resolve();
      else reject(new Error(`a server answered ${JSON.stringify(text.replaceAll(OK, "").slice(0, 200))} to SET`));
    };
    socket.on("data", onData).once("error", reject);
    socket.write(frames.join(""), "latin1");
  });
}
