/**
 * A domain's primaries, each asked by name through the domain's ioredis client: for what belongs to a node and not to a key
 * (scans, counters, configuration). The invariant: every question ends within its time, and every failure is typed.
 */
import { Cluster } from "ioredis";
import type { Redis } from "ioredis";
import { KeylaneError } from "../errors.js";
import type { RawClient } from "./raw.js";
import { replyError } from "./refusal.js";

/** An argument of a command sent to one node. */
export type NodeArg = string | number | Buffer;

/** One primary. */
export interface Primary {
  /** `host:port`, as it is dialled. */
  readonly address: string;
  /** Whether it is part of a cluster. */
  readonly clustered: boolean;
  /** Sends one command. Texts of the reply are Buffers, maps are lists of names and values. */
  call(name: string, ...args: readonly NodeArg[]): Promise<unknown>;
  /** Sends commands in one write. One result a command; a refused one has its error as result. */
  pipeline(commands: readonly (readonly [name: string, ...args: NodeArg[]])[]): Promise<unknown[]>;
}

/**
 * The primaries that the client knows, once it is connected. Each question to them ends within `timeoutMs`.
 *
 * @throws KeylaneError `KEYLANE_ERR_CONNECT` when the client is not connected after `timeoutMs`; `KEYLANE_ERR_CLOSED`
 */
export async function primariesOf(client: RawClient, timeoutMs: number): Promise<Primary[]> {
  await connected(client, timeoutMs);
  const clustered = client instanceof Cluster;
  const nodes = clustered ? client.nodes("master") : [client];
  return nodes.map((redis) => primary(redis, clustered, timeoutMs));
}

function primary(redis: Redis, clustered: boolean, timeoutMs: number): Primary {
  const { host = "127.0.0.1", port = 6379 } = redis.options;
  const address = `${host}:${port}`;
  return {
    address,
    clustered,
    async call(name, ...args) {
      try {
        return await within(redis.callBuffer(name, ...args), timeoutMs, address, name);
      } catch (error) {
        throw typed(error as Error, address, name);
      }
    },
    async pipeline(commands) {
      const name = commands[0]?.[0] ?? "";
      const pipeline = redis.pipeline();
      for (const command of commands) pipeline.callBuffer(...command);
      let results: [error: Error | null, result: unknown][] | null;
      try {
        results = await within(pipeline.exec(), timeoutMs, address, name);
      } catch (error) {
        throw typed(error as Error, address, name);
      }
      return (results ?? []).map(([error, result]) => (error === null ? result : typed(error, address, name)));
    },
  };
}

function typed(error: Error, node: string, command: string): KeylaneError {
  if (error instanceof KeylaneError) return error;
  if (error.name === "ReplyError") return replyError(error.message, { node, command });
  return new KeylaneError("KEYLANE_ERR_CONNECTION_LOST", `${node}: ${error.message}`, { node, command, cause: error });
}

function connected(client: RawClient, timeoutMs: number): Promise<void> {
  if (client.status === "ready") return Promise.resolve();
  if (client.status === "end") return Promise.reject(new KeylaneError("KEYLANE_ERR_CLOSED", "the client is closed"));
  return new Promise((resolve, reject) => {
    let last: Error | undefined;
    const failed = (error: Error): void => {
      last = error;
    };
    const stop = (): void => {
      clearTimeout(timer);
      client.off("ready", ready);
      client.off("error", failed);
    };
    const ready = (): void => {
      stop();
      resolve();
    };
    const timer = setTimeout(() => {
      stop();
      const message = `no connection within ${timeoutMs} ms${last === undefined ? "" : `: ${last.message}`}`;
      reject(new KeylaneError("KEYLANE_ERR_CONNECT", message, { cause: last }));
    }, timeoutMs);
    client.on("ready", ready);
    client.on("error", failed);
  });
}

async function within<T>(answer: Promise<T>, timeoutMs: number, node: string, command: string): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      const message = `${node}: ${command} was not answered within ${timeoutMs} ms`;
      reject(new KeylaneError("KEYLANE_ERR_TIMEOUT", message, { node, command }));
    }, timeoutMs);
  });
  try {
    return await Promise.race([answer, late]);
  } finally {
    clearTimeout(timer);
  }
}
