/** A child process with a keylane of its own, as the test's side sees it. */
import { fork } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { after } from "node:test";
import { fileURLToPath } from "node:url";
import type { OpenOptions } from "keylane";
import type { jobs } from "./child.js";
import { within } from "../until.js";

type Jobs = typeof jobs;

export class HotProcess {
  readonly #child: ChildProcess;
  readonly #waiting = new Map<number, (result: unknown) => void>();
  #asked = 0;

  private constructor(child: ChildProcess) {
    this.#child = child;
    child.on("message", ([id, result]: [number, unknown]) => {
      this.#waiting.get(id)?.(result);
      this.#waiting.delete(id);
    });
  }

  /** Starts one; resolves when its keylane is open. It ends with the test. */
  static async start(options: OpenOptions): Promise<HotProcess> {
    const child = fork(fileURLToPath(new URL("./child.js", import.meta.url)), [JSON.stringify(options)]);
    after(() => child.kill("SIGKILL"));
    await within(once(child, "message"), 20_000, "a child's start");
    return new HotProcess(child);
  }

  ask<Name extends keyof Jobs>(name: Name, ...given: Parameters<Jobs[Name]>): Promise<Awaited<ReturnType<Jobs[Name]>>> {
    const id = ++this.#asked;
    const answer = new Promise<unknown>((resolve) => this.#waiting.set(id, resolve));
    this.#child.send([id, name, ...given]);
    return within(answer, 20_000, `a child's ${name}`) as Promise<Awaited<ReturnType<Jobs[Name]>>>;
  }

  /** Dies without a word. */
  async die(): Promise<void> {
    const exited = once(this.#child, "exit");
    this.#child.kill("SIGKILL");
    await exited;
  }
}
