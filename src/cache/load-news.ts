/** How a domain's loads end, for those who want to know: subscribers of `keylane:cache`, and the list of nodes that are out. */
import { cacheChannel } from "../diagnostics.js";
import type { CacheMessage } from "../diagnostics.js";
import type { Settle } from "../lane/op.js";
import type { Outages } from "./outages.js";

export class LoadNews {
  readonly #domain: string;
  readonly #outages: Outages;
  /** Failures make a node one that is out: values past their expiry may be answered then. */
  readonly #excusing: boolean;

  constructor(domain: string, outages: Outages, excusing: boolean) {
    this.#domain = domain;
    this.#outages = outages;
    this.#excusing = excusing;
  }

  /** Whether anybody wants to know. */
  get wanted(): boolean {
    return this.#excusing || cacheChannel.hasSubscribers;
  }

  /** A `settle` that notes how the load ends before it settles. `nodeOf` tells the key's node, then. */
  watch(kind: "load" | "refresh", nodeOf: () => number, settle: Settle): Settle {
    const began = cacheChannel.hasSubscribers ? performance.now() : 0;
    const ended = (error: unknown): void => {
      if (began !== 0) this.publish(kind, performance.now() - began, error);
    };
    return (value) => {
      if (value instanceof Promise) {
        value.catch((error: unknown) => {
          if (this.#excusing) this.#outages.failed(nodeOf(), error, performance.now());
          ended(error);
        });
      } else {
        if (this.#outages.any) this.#outages.answered(nodeOf());
        ended(null);
      }
      settle(value);
    };
  }

  publish(kind: CacheMessage["kind"], durationMs: number | null, error: unknown): void {
    if (!cacheChannel.hasSubscribers) return;
    const code = (error as { code?: CacheMessage["error"] } | null)?.code ?? null;
    cacheChannel.publish({ domain: this.#domain, kind, durationMs, error: code } satisfies CacheMessage);
  }
}
