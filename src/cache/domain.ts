/**
 * A domain as the facade sees it: its lane, the copies of its hot keys, and the shared cache in front of it when there is one.
 * The invariant: a write of a cached key, by whatever call, drops the key in every thread before it is sent and again when it
 * is answered. (Writes of copied keys are looked after where every call ends: at the lane's gate, see `hot-replicas.ts`.)
 */
import { ownKey } from "../lane/arguments.js";
import { ClosedLane } from "../lane/closed-lane.js";
import type { CallLimits, Lane } from "../lane/contract.js";
import { HEAD_GET } from "../lane/op.js";
import type { Key } from "../types.js";
import type { HotReplicas } from "./hot-replicas.js";
import type { SharedCache } from "./shared-cache.js";

export class Domain {
  #lane: Lane;
  #cache: SharedCache | null;
  #replicas: HotReplicas | null;

  /** `replicas` is null where hot keys are not looked for. */
  constructor(lane: Lane, cache: SharedCache | null, replicas: HotReplicas | null = null) {
    this.#lane = lane;
    this.#cache = cache;
    this.#replicas = replicas;
  }

  get name(): string {
    return this.#lane.config.domain;
  }

  get lane(): Lane {
    return this.#lane;
  }

  get cache(): SharedCache | null {
    return this.#cache;
  }

  /** The hot path: a short string key, no limits of its own. */
  get(key: string): Promise<unknown> {
    if (this.#cache !== null) return this.#cache.get(key);
    const replicas = this.#replicas;
    if (replicas !== null && replicas.active) {
      const read = replicas.read(key);
      if (read !== null) return read;
    }
    return this.#lane.get(key);
  }

  /** Any other read of a value. `limits` are validated. */
  getWith(key: Key, limits: CallLimits): Promise<unknown> {
    if (this.#cache !== null) return this.#cache.getAlone(key, limits);
    if (typeof key === "string" && this.#replicas?.active === true) {
      const read = this.#replicas.read(key, limits);
      if (read !== null) return read;
    }
    return this.#lane.call(HEAD_GET, ownKey(key), null, null, limits);
  }

  /** Runs a call that may write `keys`. */
  write<T>(keys: readonly Key[], send: () => Promise<T>): Promise<T> {
    return this.#cache === null ? send() : this.#cache.write(keys, send);
  }

  /** Refuses all calls from now on. */
  close(): void {
    this.#lane = new ClosedLane(this.#lane);
    this.#cache = null;
    this.#replicas = null;
  }
}
