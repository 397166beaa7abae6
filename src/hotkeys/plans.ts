/** What is to be done about a hot key, and how it is told: decided anew from what is known of it, each time that is asked. */
import type { Domain } from "../cache/domain.js";
import { native } from "../native/index.js";
import type { HotKey } from "./hot-key.js";
import type { HotKeysPolicy } from "./policy.js";
import type { HotAction, HotKeyInfo } from "./types.js";

/** Values longer than this are costly to read often. */
const BIG_BYTES = 64 << 10;
/** Copies are for so many times the rate. */
const SPARE = 1.5;

export class Plans {
  /** Most copies that a key can have. */
  most: (domain: number, key: string) => number = () => 0;
  readonly #policy: HotKeysPolicy;
  readonly #domains: readonly Domain[];

  constructor(policy: HotKeysPolicy, domains: readonly Domain[]) {
    this.#policy = policy;
    this.#domains = domains;
  }

  /** Whether the lists let anything be done about a key. O(prefixes). */
  mayAct(key: string): boolean {
    const { allow, deny } = this.#policy;
    const within = (prefix: string): boolean => key.startsWith(prefix);
    return !deny.some(within) && (allow.length === 0 || allow.some(within));
  }

  /** Whether all threads answer it from the cache. */
  isCached({ domain, valueBytes, actable }: HotKey): boolean {
    const { cache } = this.#domains[domain]!;
    return actable && cache !== null && (valueBytes ?? 0) <= cache.policy.maxValueBytes;
  }

  /** Copies that it should have by this process's doing, as of the window at `now`. */
  copiesOf(key: HotKey, now: number): number {
    if (!key.actable) return 0;
    const { replicas, nodeLimit } = this.#policy.rules[key.domain]!;
    const rests = now < key.restlessUntil;
    const spread = replicas && key.own && key.level === "critical" && !rests && !this.isCached(key);
    const needed = spread ? Math.ceil((key.rate / nodeLimit) * SPARE) : 0;
    return Math.min(this.most(key.domain, key.key), Math.max(needed, key.pinned ?? 0));
  }

  actionOf(key: HotKey, now: number): HotAction {
    if (this.isCached(key)) return "l1";
    return key.replicas.length > 0 || this.copiesOf(key, now) > 0 ? "replicas" : "none";
  }

  /** Whether it is known what can be done about it: how long its value is, and whether it keeps still enough for copies. */
  isDecided(key: HotKey, now: number): boolean {
    if (!key.actable) return true;
    if (key.measuring) return false;
    return this.isCached(key) || key.replicas.length > 0 || this.copiesOf(key, now) === 0;
  }

  /** Name of its domain, and the node that serves its slot now. */
  placeOf({ domain, key }: HotKey): { readonly domain: string; readonly node: string | null } {
    const { name, lane } = this.#domains[domain]!;
    const { topology } = lane;
    const node = topology.node(topology.nodeOf(native.slot(key)));
    return { domain: name, node: node === null ? null : `${node.host}:${node.port}` };
  }

  describe(key: HotKey, now: number): HotKeyInfo {
    const { state, level, rate, upper, peak, replicas, valueBytes, own, pinned, remote } = key;
    return {
      key: key.key,
      ...this.placeOf(key),
      state,
      level,
      rate,
      upper,
      peak,
      action: this.actionOf(key, now),
      replicas,
      valueBytes,
      big: (valueBytes ?? 0) > BIG_BYTES,
      pinned: pinned !== null,
      remote: remote !== null && !own,
      hotMs: now - key.hotSince,
      stateMs: now - key.stateSince,
    };
  }
}

/** The most used first, but pinned ones before all. */
export function byRate(keys: Iterable<HotKey>): HotKey[] {
  return [...keys].toSorted((one, other) => heat(other) - heat(one) || other.peak - one.peak);
}

function heat({ rate, remote, pinned }: HotKey): number {
  return Math.max(rate, remote?.rate ?? 0) + (pinned === null ? 0 : 1e15);
}
