/**
 * `lanes.hotKeys`: what users see and do of hot keys. They are found and governed in the thread that opened, for all threads of
 * the process; in one that attached, lists are empty.
 */
import { Domain } from "../cache/domain.js";
import { KeylaneError } from "../errors.js";
import { assertKey, badArgument } from "../lane/arguments.js";
import { nativeInfo } from "../native/index.js";
import { NO_DOMAIN } from "../routing/router.js";
import type { Router } from "../routing/router.js";
import type { HotShare } from "../shared/hot-share.js";
import { Detector } from "./detector.js";
import { HotLoop } from "./loop.js";
import type { HotKeysListener } from "./loop.js";
import type { HotKeysPolicy } from "./policy.js";
import type { HotKeySource } from "./sources/source.js";
import { Replicas } from "./replicas.js";
import type { HotKeyInfo, HotKeysStats, PinOptions, TopKey } from "./types.js";

/** Names of replicas are kept in memory for every key. */
const MAX_PINNED_REPLICAS = 512;

/** What hot keys are made from. */
export interface HotKeysParts {
  /** Null when hot keys are not looked for. */
  readonly policy: HotKeysPolicy | null;
  readonly share: HotShare | null;
  /** Whether this thread opened. */
  readonly governs: boolean;
  readonly domains: readonly Domain[];
  readonly router: Router;
  readonly listener: HotKeysListener;
  /** Hears why keys of a domain cannot be copied. */
  readonly degraded: (domain: string, reason: string) => void;
}

export class HotKeys {
  /** What finds and governs; null in threads that attached, and when hot keys are not looked for. */
  readonly #loop: HotLoop | null;
  readonly #policy: HotKeysPolicy | null;
  readonly #share: HotShare | null;
  readonly #domains: readonly Domain[];
  readonly #router: Router;
  #source: HotKeySource | null = null;
  /** What is wrong with the source. */
  #trouble: Error | null = null;

  /** Made by `open`. */
  constructor({ policy, share, governs, domains, router, listener, degraded }: HotKeysParts) {
    this.#policy = policy;
    this.#share = share;
    this.#domains = domains;
    this.#router = router;
    if (policy === null || share === null || !governs) {
      this.#loop = null;
      return;
    }
    const { counts, set } = share;
    const detector = counts === null ? null : new Detector(counts.session, (key) => router.domain(key));
    // Its calls are made also when those of callers are refused.
    const own = domains.map(({ lane, cache }) => new Domain(lane, cache));
    const loop = new HotLoop(policy, own, set, detector, listener);
    const lanes = domains.map(({ lane }) => lane);
    const restless = (domain: number, key: string): void => loop.restless(domain, key);
    loop.act(new Replicas(lanes, router, { publish: () => loop.publish(), degraded, restless }));
    this.#loop = loop;
  }

  /** The hot keys of this process and those that others told it of, the most used first; at most 1,000. O(keys). */
  list(): HotKeyInfo[] {
    return this.#loop?.list() ?? [];
  }

  /**
   * The keys used most in the last second, hot or not, at most `limit` (default: the option `topK`). Only keys with 8
   * operations within a window of 100 ms are known. O(limit).
   *
   * @throws KeylaneError `KEYLANE_ERR_ARGUMENT`
   */
  top(limit = this.#policy?.topK ?? 100): TopKey[] {
    if (!Number.isInteger(limit) || limit < 1 || limit > 1000) throw badArgument("top: the limit must be 1 to 1,000");
    const rows = this.#loop?.top(limit) ?? [];
    return rows.map(({ key, domain, lower, upper }) => {
      return { key, domain: this.#domains[domain]?.name ?? null, rate: lower, upper };
    });
  }

  /**
   * Treats a key as hot whatever its rate, until `unpin`: all threads answer it from the cache where its domain has one, and with
   * `replicas` its reads are spread over so many copies.
   *
   * @throws KeylaneError `KEYLANE_ERR_ARGUMENT`: a bad key or option, a key of a domain without hot keys, a thread that attached
   */
  pin(key: string, { replicas = 0 }: PinOptions = {}): void {
    const loop = this.#governing("pin");
    if (typeof key !== "string") throw badArgument("pin: the key must be a string");
    assertKey(key);
    if (!Number.isInteger(replicas) || replicas < 0 || replicas > MAX_PINNED_REPLICAS) {
      throw badArgument(`pin: replicas must be 0 to ${MAX_PINNED_REPLICAS}`);
    }
    const domain = this.#router.domain(key);
    if (domain === NO_DOMAIN || (this.#policy?.rules[domain] ?? null) === null) {
      throw badArgument("pin: the key is in no domain that has hot keys");
    }
    loop.pin(key.toWellFormed(), domain, replicas);
  }

  /** Leaves a key to its rate again. False when it was not pinned. @throws KeylaneError `KEYLANE_ERR_ARGUMENT` */
  unpin(key: string): boolean {
    const loop = this.#governing("unpin");
    if (typeof key !== "string") throw badArgument("unpin: the key must be a string");
    return loop.unpin(key.toWellFormed());
  }

  /** Counters since `open`. */
  stats(): HotKeysStats {
    const loop = this.#loop;
    const keys = loop?.list() ?? [];
    return {
      counting: this.#share !== null && this.#share.counts !== null,
      reason: this.#reason,
      hits: loop?.hits ?? 0,
      keys: keys.length,
      critical: keys.filter(({ level }) => level === "critical").length,
      reported: loop?.counts.reported ?? 0,
      recovered: loop?.counts.recovered ?? 0,
      refused: loop?.refused ?? 0,
      source: this.#source === null ? null : { name: this.#source.name, trouble: this.#trouble?.message ?? null },
    };
  }

  /** @internal Has this process tell others and hear them; resolves after the first look. `tell` hears of each failure, once. */
  async join(source: HotKeySource, tell: (error: KeylaneError) => void): Promise<void> {
    this.#source = source;
    await this.#loop?.join(source, (error) => {
      this.#trouble = error;
      if (error instanceof KeylaneError) tell(error);
    });
  }

  /** @internal The loop of this thread, for those who act. */
  get loop(): HotLoop | null {
    return this.#loop;
  }

  /** Why nothing is counted. */
  get #reason(): string | null {
    if (this.#share === null) return "the options turn hot keys off";
    if (this.#share.counts !== null) return null;
    const info = nativeInfo();
    return info.kind === "portable" ? info.reason : "more threads count than there is room for";
  }

  #governing(call: string): HotLoop {
    if (this.#loop !== null) return this.#loop;
    const why =
      this.#policy === null ? "the options turn hot keys off" : "only the thread that opened governs hot keys";
    throw badArgument(`${call}: ${why}`);
  }
}
