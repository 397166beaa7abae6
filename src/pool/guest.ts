/**
 * The pool, used by a thread that did not open it: links to the workers come through the port of a handle. The invariant: when
 * the pool has ended, or its port is closed, every call fails at once.
 */
import type { MessagePort } from "node:worker_threads";
import { KeylaneError } from "../errors.js";
import type { PoolClient } from "./client.js";
import type { Delivery } from "./host.js";
import { processMs } from "./protocol.js";

export class PoolGuest {
  readonly #port: MessagePort;
  readonly #client: PoolClient;
  /** Workers that no link has led to yet. */
  readonly #missing: Set<number>;

  constructor(port: MessagePort, client: PoolClient) {
    this.#port = port;
    this.#client = client;
    this.#missing = new Set(client.links.keys());
  }

  /** Resolves when a link to every worker is there. Rejects after `withinMs`, or when the pool has ended. */
  open(withinMs: number): Promise<void> {
    return new Promise((resolve, reject) => {
      const fail = (why: string): void => {
        clearTimeout(timer);
        reject(new KeylaneError("KEYLANE_ERR_CONNECT", `the pool of the handle ${why}`));
      };
      const timer = setTimeout(() => fail(`has not answered for ${withinMs} ms`), withinMs);
      this.#port.on("message", (delivery: Delivery) => {
        this.#take(delivery);
        if (this.#missing.size > 0) return;
        clearTimeout(timer);
        resolve();
      });
      this.#port.once("close", () => {
        for (const link of this.#client.links) link.end("the pool was closed");
        fail("was closed");
      });
      this.#port.postMessage("join");
    });
  }

  /** Leaves the pool. Idempotent. */
  leave(): void {
    this.#port.close();
    for (const link of this.#client.links) link.end("the pool was left");
  }

  #take(delivery: Delivery): void {
    const link = this.#client.links[delivery.worker]!;
    if ("lost" in delivery) {
      link.lose(delivery.lost);
      return;
    }
    link.open(delivery.port, processMs(), Math.floor(performance.now()));
    this.#missing.delete(delivery.worker);
  }
}
