/**
 * Commands that block their connection (BLPOP, XREAD BLOCK, WAIT …): each runs on an ioredis connection of its own, taken
 * from a small idle set or dialled for it, so nobody waits behind it. The invariant: a line serves one call at a time, and a
 * line whose call was given up is cut, since its reply may still come.
 */
import { Redis } from "ioredis";
import { KeylaneError } from "../errors.js";
import type { Address, Topology } from "../routing/topology.js";
import type { CommandOptions, Reply } from "../types.js";
import type { LaneConfig } from "./config.js";
import { mapAddress } from "./discover.js";
import type { WireArg } from "./op.js";
import { parseRedirect, replyError, ruleFor } from "./refusal.js";

const IDLE_LINES = 4;
/** Longest time a timer takes, in milliseconds. */
const LONGEST_TIMER = 2 ** 31 - 1;

interface Line {
  readonly redis: Redis;
  readonly node: string;
  /** The server was reached: a call may have been sent. */
  reached: boolean;
}

/** One blocking call. */
interface BlockingCall {
  readonly name: string;
  readonly args: readonly WireArg[];
  readonly buffers: boolean;
  /** Milliseconds from now; null waits as long as the server does. */
  readonly timeoutMs: number | null;
  readonly signal: AbortSignal | undefined;
}

export class BlockingLines {
  readonly #config: LaneConfig;
  readonly #topology: Topology;
  readonly #idle: Line[] = [];
  readonly #busy = new Set<Line>();
  #closed = false;

  constructor(config: LaneConfig, topology: Topology) {
    this.#config = config;
    this.#topology = topology;
  }

  /** Runs a command at the node of `slot`; rejected where none is known, and with `open` false. */
  call(name: string, args: readonly WireArg[], slot: number, options: CommandOptions, open: boolean): Promise<Reply> {
    const { domain, commandTimeoutMs } = this.#config;
    const node = this.#topology.node(this.#topology.nodeOf(slot));
    const command = name.toUpperCase();
    if (!open || node === null) {
      const code = node === null ? "KEYLANE_ERR_NO_NODE" : "KEYLANE_ERR_CLOSED";
      return Promise.reject(new KeylaneError(code, `${command}: cannot be sent`, { command, domain, slot }));
    }
    const asked = blockTimeMs(name, args);
    const timeoutMs = options.timeoutMs ?? (asked === 0 ? null : (asked ?? 0) + commandTimeoutMs);
    return this.#run(node, {
      name: command,
      args,
      buffers: options.buffers === true,
      timeoutMs,
      signal: options.signal,
    });
  }

  /** Follows MOVED. */
  async #run(address: Address, call: BlockingCall): Promise<Reply> {
    const { natMap, domain } = this.#config;
    let at = address;
    for (let hops = 0; ; hops += 1) {
      try {
        return await this.#once(at, call);
      } catch (error) {
        const redirect =
          error instanceof KeylaneError && ruleFor(error.message).action === "moved"
            ? parseRedirect(error.message)
            : null;
        if (redirect === null || hops >= this.#config.maxRedirections) throw error;
        at =
          redirect.address.host === ""
            ? { host: at.host, port: redirect.address.port }
            : mapAddress(redirect.address, natMap, domain);
      }
    }
  }

  /** Cuts every line; calls in progress reject. */
  close(): void {
    this.#closed = true;
    for (const line of [...this.#idle.splice(0), ...this.#busy]) line.redis.disconnect();
  }

  async #once(address: Address, call: BlockingCall): Promise<Reply> {
    const { domain } = this.#config;
    const context = { command: call.name, domain, node: `${address.host}:${address.port}` };
    if (this.#closed) throw new KeylaneError("KEYLANE_ERR_CLOSED", `${call.name}: keylane is closed`, context);
    if (call.signal?.aborted === true) {
      throw new KeylaneError("KEYLANE_ERR_ABORTED", `${call.name}: the caller aborted`, {
        ...context,
        outcome: "not-sent",
      });
    }
    const line = this.#take(address);
    this.#busy.add(line);
    let given: KeylaneError | null = null;
    const giveUp = (error: KeylaneError): void => {
      given = error;
      line.redis.disconnect();
    };
    const abort = (): void =>
      giveUp(
        new KeylaneError("KEYLANE_ERR_ABORTED", `${call.name}: the caller aborted`, {
          ...context,
          cause: call.signal?.reason,
        }),
      );
    const timer =
      call.timeoutMs === null
        ? undefined
        : setTimeout(
            () =>
              giveUp(new KeylaneError("KEYLANE_ERR_TIMEOUT", `${call.name}: no reply before the deadline`, context)),
            Math.min(call.timeoutMs, LONGEST_TIMER),
          );
    call.signal?.addEventListener("abort", abort, { once: true });
    try {
      const args = call.args as (string | Buffer)[];
      const reply = call.buffers
        ? await line.redis.callBuffer(call.name, ...args)
        : await line.redis.call(call.name, ...args);
      this.#giveBack(line);
      return reply as Reply;
    } catch (error) {
      throw given ?? this.#translate(error as Error, line, context);
    } finally {
      clearTimeout(timer);
      call.signal?.removeEventListener("abort", abort);
      this.#busy.delete(line);
    }
  }

  #translate(error: Error, line: Line, context: object): KeylaneError {
    if (error.name === "ReplyError") {
      this.#giveBack(line);
      return replyError(error.message, context);
    }
    line.redis.disconnect();
    if (this.#closed)
      return new KeylaneError("KEYLANE_ERR_CLOSED", "keylane was closed", { ...context, outcome: "unknown" });
    const code = line.reached ? "KEYLANE_ERR_CONNECTION_LOST" : "KEYLANE_ERR_CONNECT";
    return new KeylaneError(code, error.message, { ...context, cause: error });
  }

  #take(address: Address): Line {
    const node = `${address.host}:${address.port}`;
    const at = this.#idle.findIndex((line) => line.node === node && line.redis.status === "ready");
    if (at !== -1) return this.#idle.splice(at, 1)[0]!;
    const { credentials, tls, db, connectTimeoutMs, connectionName } = this.#config;
    const redis = new Redis({
      ...address,
      ...credentials,
      ...(tls === undefined ? {} : { tls }),
      ...(db === undefined ? {} : { db }),
      connectionName: `${connectionName}-blocking`,
      connectTimeout: connectTimeoutMs,
      retryStrategy: () => null,
      maxRetriesPerRequest: 0,
      autoResendUnfulfilledCommands: false,
      enableReadyCheck: false,
      disableClientInfo: true,
    });
    redis.on("error", () => {
      // The call that waits on this line is rejected with the same error.
    });
    const line = { redis, node, reached: false };
    redis.once("connect", () => (line.reached = true));
    return line;
  }

  #giveBack(line: Line): void {
    if (this.#closed || this.#idle.length >= IDLE_LINES || line.redis.status !== "ready") line.redis.disconnect();
    else this.#idle.push(line);
  }
}

/**
 * How long a command asks the server to block, in milliseconds: 0 without limit, null when it does not say, or says what the
 * server will refuse (then it does not block at all).
 */
export function blockTimeMs(name: string, args: readonly WireArg[]): number | null {
  const asked = timeIn(name, args);
  return asked !== null && asked >= 0 ? asked : null;
}

function timeIn(name: string, args: readonly WireArg[]): number | null {
  const seconds = (at: number): number => Math.ceil(Number(String(args.at(at))) * 1000);
  if (/^(blpop|brpop|brpoplpush|blmove|bzpopmin|bzpopmax)$/.test(name)) return seconds(-1);
  if (/^(blmpop|bzmpop)$/.test(name)) return seconds(0);
  if (name === "wait" || name === "waitaof") return Number(String(args.at(-1)));
  const token = args.findIndex((arg) => typeof arg === "string" && arg.toUpperCase() === "BLOCK");
  return token === -1 ? null : Number(String(args[token + 1]));
}
