/**
 * Copies of hot keys on other primaries, as the process that governs them makes and keeps them, for all its domains. What threads
 * do with copies is in `cache/hot-replicas.ts`. The invariant: copies exist only while changes of their original, by whomever,
 * are heard of; where a domain's servers cannot tell of them, it has none.
 */
import type { Router } from "../routing/router.js";
import { CopiedDomain } from "./copied-domain.js";
import type { ReplicaDomain, ReplicaNames, ReplicasListener } from "./copied-domain.js";
import { Places } from "./places.js";

export { NO_NAMES } from "./copied-domain.js";
export type { ReplicaDomain, ReplicaNames, ReplicasListener } from "./copied-domain.js";

export class Replicas {
  readonly #domains: readonly CopiedDomain[];

  constructor(domains: readonly ReplicaDomain[], router: Router, listener: ReplicasListener) {
    const places = new Places(router);
    this.#domains = domains.map((domain) => new CopiedDomain(domain, router, places, listener));
  }

  /**
   * Has up to `count` copies of a key made and kept, each on a primary of its own that is not the original's; more or fewer than
   * before when there are some. None are made where the domain is no cluster, where changes are not told, while the key is
   * absent or is no string, and for a key whose prefix holds a `{`. Unless they are wanted `always`, a key is listened to first,
   * and the listener hears when it changes too often for copies to be of use: then none were made, or no more are.
   */
  want(domain: number, key: string, count: number, always: boolean): void {
    this.#domains[domain]!.want(key, count, always);
  }

  /** Gives a key's copies up. Resolves when they are gone (those on nodes that do not answer: in 5 s) and threads are told. */
  release(domain: number, key: string): Promise<void> {
    return this.#domains[domain]!.release(key);
  }

  /** Has reads and writes of a key go to copies, too, that another process made; to none any more for no names. */
  adopt(domain: number, key: string, names: readonly string[]): void {
    this.#domains[domain]!.adopt(key, names);
  }

  /** The copies of a key now, adopted ones included: what the hot set has to tell. */
  of(domain: number, key: string): ReplicaNames {
    return this.#domains[domain]!.of(key);
  }

  /** The copies that this process made and keeps, for others to adopt. */
  made(domain: number, key: string): readonly string[] {
    return this.#domains[domain]!.made(key);
  }

  /** Most copies that a key can have: one on each primary but its own; 0 where none are made. */
  most(domain: number, key: string): number {
    return this.#domains[domain]!.most(key);
  }

  /** Whether there are copies of this process's making. */
  get any(): boolean {
    return this.#domains.some(({ any }) => any);
  }

  /** Bytes of a wanted key's value when it was last read; null when it is absent, no string, or was not read. */
  bytesOf(domain: number, key: string): number | null {
    return this.#domains[domain]!.bytesOf(key);
  }

  /** Gives all copies up, as far as that can be done within the time, and ends. */
  async close(withinMs: number): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, withinMs);
    });
    await Promise.race([Promise.all(this.#domains.map((domain) => domain.releaseAll())), late]);
    clearTimeout(timer);
    this.destroy();
  }

  /** Ends at once; copies die by their time to live. Idempotent. */
  destroy(): void {
    for (const domain of this.#domains) domain.destroy();
  }
}
