/**
 * What the servers did, from their own mouth: MONITOR tells every command that ran, in order, with the moment it ran in
 * microseconds of the machine's wall clock. The invalidation of a key is sent within that very moment.
 *
 * Bytes are only kept while the run lasts, and read afterwards, so that watching costs the run as little as possible.
 */
import { once } from "node:events";
import { type Socket, connect } from "node:net";
import type { SandboxNode } from "keylane/sandbox";
import { connectRaw } from "../raw.js";
import { clock } from "./player.js";

/** A command that ran. */
export interface Ran {
  /** Moment in milliseconds of the servers' wall clock. */
  readonly at: number;
  /** When the monitor heard of it, by `clock()`: its server had sent what it had to send by then. */
  readonly heard: number;
  /** Command name in upper case, then its arguments. */
  readonly parts: readonly string[];
}

const LINE = /^\+(\d+)\.(\d{6}) \[[^\]]*\] (.*)$/;

export class Monitor {
  readonly #socket: Socket;
  readonly #chunks: [bytes: Buffer, heard: number][] = [];

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.on("data", (chunk: Buffer) => void this.#chunks.push([chunk, clock()]));
    socket.on("error", () => undefined);
  }

  static async start({ host, port }: SandboxNode): Promise<Monitor> {
    const socket = connect({ host, port });
    await once(socket, "connect");
    const monitor = new Monitor(socket);
    const answered = once(socket, "data");
    socket.write("MONITOR\r\n");
    await answered;
    return monitor;
  }

  /** Ends the watch. Commands of `names` that ran, in order. */
  stop(names: ReadonlySet<string>): Ran[] {
    this.#socket.destroy();
    const ran: Ran[] = [];
    let rest = "";
    for (const [bytes, heard] of this.#chunks) {
      const lines = (rest + bytes.toString("latin1")).split("\r\n");
      rest = lines.pop()!;
      for (const line of lines) {
        const [, seconds, micros, command] = LINE.exec(line) ?? [];
        if (command === undefined) continue;
        const [name = "", ...args] = [...command.matchAll(/"([^"]*)"/g)].map(([, text]) => text!);
        const parts = [name.toUpperCase(), ...args];
        if (names.has(parts[0]!)) ran.push({ at: Number(seconds) * 1000 + Number(micros) / 1000, heard, parts });
      }
    }
    return ran;
  }
}

/** The servers' wall clock less `clock()`. */
export interface Offset {
  readonly ms: number;
  /** At most so far from the truth, in milliseconds. */
  readonly within: number;
}

/** Asks a server for the time, again and again; the quickest answer is the best. */
export async function offsetOf({ address }: SandboxNode): Promise<Offset> {
  const client = await connectRaw(address);
  let best: Offset = { ms: 0, within: Infinity };
  for (let i = 0; i < 300; i += 1) {
    const before = clock();
    const [seconds, micros] = (await client.command("TIME")) as [Buffer, Buffer];
    const after = clock();
    const within = (after - before) / 2;
    const time = Number(String(seconds)) * 1000 + Number(String(micros)) / 1000;
    if (within < best.within) best = { ms: time - (before + after) / 2, within };
  }
  client.close();
  return best;
}
