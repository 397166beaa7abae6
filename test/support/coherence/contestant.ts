/** The parent's end of a process of a coherence run. */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { within } from "../until.js";
import type { KeyAtRest, PlayerLog } from "./player.js";
import type { Answer, Ask, ProgramPlan } from "./program.js";

const PROGRAM = fileURLToPath(new URL("program.js", import.meta.url));
/** Patience with an answer, in milliseconds. */
const PATIENCE_MS = 30_000;

export class Contestant {
  readonly #child: ChildProcess;

  private constructor(child: ChildProcess) {
    this.#child = child;
  }

  /** Starts the process; resolves when all its threads are connected. */
  static async start(plan: ProgramPlan): Promise<Contestant> {
    const contestant = new Contestant(
      fork(PROGRAM, [JSON.stringify(plan)], { serialization: "advanced", execArgv: [] }),
    );
    await contestant.#answers("the start");
    return contestant;
  }

  async play(): Promise<void> {
    await this.#ask("start");
  }

  /** The logs of its threads. */
  async stop(): Promise<PlayerLog[]> {
    return (await this.#ask("stop")) as PlayerLog[];
  }

  /** By thread: every key at rest. */
  async rest(): Promise<KeyAtRest[][]> {
    return (await this.#ask("rest")) as KeyAtRest[][];
  }

  /** Has the process close and end; resolves to its exit code. */
  async end(): Promise<number | null> {
    const exit = once(this.#child, "exit");
    await this.#ask("end");
    const [code] = (await within(exit, PATIENCE_MS, "the end of a process")) as [number | null];
    return code;
  }

  /** Ends the process at once, if it still runs. */
  kill(): void {
    if (this.#child.exitCode === null && this.#child.signalCode === null) this.#child.kill("SIGKILL");
  }

  #ask(ask: Ask): Promise<Answer[]> {
    const answers = this.#answers(ask);
    this.#child.send(ask);
    return answers;
  }

  async #answers(what: string): Promise<Answer[]> {
    const answer = once(this.#child, "message").then(([one]) => one as Answer[]);
    const died = once(this.#child, "exit").then(([code, signal]): never => {
      throw new Error(`a process of the run ended with ${code ?? signal}`);
    });
    died.catch(() => undefined);
    return within(Promise.race([answer, died]), PATIENCE_MS, `the answer to ${what}`);
  }
}
