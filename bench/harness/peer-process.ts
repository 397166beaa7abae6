/**
 * The parent's handle on a contestant's process. The invariant: every request is answered or fails within its deadline, and
 * no process outlives `stop()` or the parent.
 */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import type { Role, Sample } from "../report/types.js";
import type { Answer, Request } from "./serve.js";

const OPEN_MS = 120_000;
/** Grace on top of a round's own bound; a peer that needs longer hangs. */
const GRACE_MS = 30_000;
const CLOSE_MS = 10_000;

/** A program of this folder that calls `serve`. */
export type Program =
  | "cache-child"
  | "caps-child"
  | "hits-child"
  | "hotkeys-child"
  | "lane-child"
  | "ledger-child"
  | "phases-child"
  | "pool-child"
  | "replay-child"
  | "route-child";

export class PeerProcess<Entry, Round extends { readonly maxMs: number }> {
  readonly #child: ChildProcess;
  #name: string;
  #role: Role = "peer";

  private constructor(program: Program, name: string) {
    this.#name = name;
    this.#child = fork(new URL(`./${program}.js`, import.meta.url));
  }

  /** Starts a process and opens its contestant; `name` stands for it until it has told its own. */
  static async start<Entry, Round extends { readonly maxMs: number }>(
    program: Program,
    name: string,
    entry: Entry,
  ): Promise<PeerProcess<Entry, Round>> {
    const peer = new PeerProcess<Entry, Round>(program, name);
    try {
      const opened = await peer.#ask({ do: "open", entry }, "open", OPEN_MS);
      peer.#name = opened.name;
      peer.#role = opened.role;
      return peer;
    } catch (error) {
      await peer.stop();
      throw error;
    }
  }

  get name(): string {
    return this.#name;
  }

  get role(): Role {
    return this.#role;
  }

  /** Plays one round. Rejects when a value was wrong or the contestant failed or hung. */
  async play(round: Round): Promise<Sample> {
    return (await this.#ask({ do: "round", round }, "round", round.maxMs + GRACE_MS)).sample;
  }

  /** Closes the contestant and ends its process, at once when it does not close by itself. */
  async stop(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const gone = once(this.#child, "exit");
    await this.#ask({ do: "close" }, "close", CLOSE_MS).catch(() => this.#child.kill("SIGKILL"));
    if (this.#child.connected) this.#child.disconnect();
    await gone;
  }

  async #ask<D extends Answer["did"]>(
    request: Request<Entry, Round>,
    did: D,
    ms: number,
  ): Promise<Extract<Answer, { did: D }>> {
    const listening = new AbortController();
    const timer = setTimeout(() => listening.abort(), ms);
    try {
      const answered = once(this.#child, "message", { signal: listening.signal });
      const exited = once(this.#child, "exit", { signal: listening.signal }).then(() => [
        { did: "fail", reason: "its process ended" } satisfies Answer,
      ]);
      exited.catch(() => {});
      this.#child.send(request);
      const [answer] = (await Promise.race([answered, exited])) as [Answer];
      if (answer.did === did) return answer as Extract<Answer, { did: D }>;
      throw new Error(answer.did === "fail" ? answer.reason : `it answered ${answer.did} to ${did}`);
    } catch (error) {
      const timedOut = error instanceof Error && error.name === "AbortError";
      const reason = timedOut ? `no answer to ${did} within ${ms} ms` : (error as Error).message;
      throw new Error(`${this.#name}: ${reason}`, { cause: error });
    } finally {
      clearTimeout(timer);
      listening.abort();
    }
  }
}
