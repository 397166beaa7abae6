/**
 * Everything behind the facade: lanes of this thread or a pool's workers, the cache, caps, the ledger. The invariant: they are
 * opened, drained and ended as one, in the order in which they need each other, and after `end` nothing of them is left.
 */
import { fileURLToPath } from "node:url";
import { Domain } from "../cache/domain.js";
import { HotReplicas } from "../cache/hot-replicas.js";
import { CacheStore } from "../cache/store.js";
import { BilledCounts } from "../caps/billed.js";
import { Caps } from "../caps/caps.js";
import { KeylaneError } from "../errors.js";
import { Impressions } from "../impressions/impressions.js";
import { badArgument } from "../lane/arguments.js";
import type { Lane } from "../lane/contract.js";
import { DomainLane } from "../lane/lane.js";
import { HotKeys } from "../hotkeys/hot-keys.js";
import type { HotKeysListener } from "../hotkeys/loop.js";
import { sharesOf } from "../hotkeys/shares.js";
import { openSource } from "../hotkeys/sources/open.js";
import type { HotKeySource } from "../hotkeys/sources/source.js";
import { Ledger } from "../ledger/ledger.js";
import type { LedgerPolicy } from "../ledger/policy.js";
import { native } from "../native/index.js";
import { resolveOptions } from "../options.js";
import type { OpenOptions, Resolved } from "../options.js";
import { Board } from "../pool/board.js";
import { PoolClient } from "../pool/client.js";
import { PoolGuest } from "../pool/guest.js";
import { PoolHost } from "../pool/host.js";
import type { PoolListener } from "../pool/host.js";
import { Router } from "../routing/router.js";
import { Topology } from "../routing/topology.js";
import { HANDLE_VERSION } from "../shared/handle.js";
import type { KeylaneHandle, PoolHandle } from "../shared/handle.js";
import { HotShare } from "../shared/hot-share.js";
import type { DomainStats, Stats } from "../types.js";
import { Calls } from "./calls.js";

/** How long the workers may take to settle what `close` could not wait for, in milliseconds. */
const STOP_MS = 200;
/** How long `close` may take to undo what was done about hot keys, in milliseconds. */
const UNDO_MS = 500;
/** A longer timer would fire at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;
const WORKER_PROGRAM = fileURLToPath(new URL("./worker.js", import.meta.url));

/** What is told to the user as events. */
export interface InstanceListener extends Omit<PoolListener, "untracked" | "reached"> {
  readonly hotKeys: HotKeysListener;
}

export class Instance {
  readonly calls: Calls;
  readonly store: CacheStore | null;
  readonly caps: Caps;
  readonly hotKeys: HotKeys;
  readonly #options: OpenOptions;
  readonly #resolved: Resolved;
  readonly #attached: boolean;
  readonly #listener: PoolListener;
  /** The pool where this thread opened one, or its place in another's. */
  readonly #host: PoolHost | null = null;
  readonly #guest: PoolGuest | null = null;
  #ledger: Ledger | null = null;
  /** This thread's part in hot keys. */
  readonly #hot: HotShare | null;
  /** Where processes tell each other their hot keys; the thread that opened does. */
  readonly #source: HotKeySource | null;
  #impressions: Impressions | null = null;

  /** @throws KeylaneError as `Keylane.open` and `Keylane.attach` do before anything is dialled */
  constructor(options: OpenOptions, handle: KeylaneHandle | null, pool: PoolHandle | null, told: InstanceListener) {
    const resolved = resolveOptions(options);
    this.#options = options;
    this.#resolved = resolved;
    this.#attached = handle !== null;
    this.#listener = {
      ...told,
      untracked: (domain, reason) => {
        this.store?.refused(domain);
        told.degraded(domain, reason);
      },
      reached: (domain, node) => this.store?.caches[domain]?.reached(node),
    };
    this.#source = this.#attached ? null : sourceOf(resolved);
    this.#hot = openShare(resolved, handle);
    const shares = sharesOf(resolved.hotKeys, this.#hot, resolved.lanes.length);
    const topologies = resolved.lanes.map((_, index) => new Topology(handle?.topologies[index]));
    const workers = pool?.workers ?? (handle === null ? resolved.threads : 0);
    const board = workers === 0 ? null : new Board(workers, resolved.lanes.length, pool?.board);
    const client = board === null ? null : new PoolClient(resolved.lanes, topologies, workers, board);
    const lanes: readonly Lane[] =
      client?.lanes ??
      resolved.lanes.map((config, index) => {
        return new DomainLane(config, topologies[index]!, this.#listener, shares[index]?.counts);
      });
    this.store = CacheStore.open(resolved, lanes, handle?.region ?? null, shares, this.#listener);
    const domains = lanes.map((lane, index) => {
      const share = shares[index] ?? null;
      const replicas = share === null ? null : new HotReplicas(share.set, lane, share.counts);
      const cache = this.store?.caches[index] ?? null;
      lane.gate = replicas;
      cache?.spread(replicas);
      return new Domain(lane, cache, replicas);
    });
    const router = new Router(resolved.prefixes, resolved.fallback);
    const calls = new Calls(router, domains);
    this.calls = calls;
    this.caps = new Caps({
      options: resolved.caps,
      domain: domains[resolved.caps.domain] ?? null,
      region: this.store?.region ?? null,
      domainOf: (key) => calls.domainOf(key),
      prefixOf: (key) => router.route(key).matched,
      degraded: told.degraded,
    });
    this.hotKeys = new HotKeys({
      policy: resolved.hotKeys,
      share: this.#hot,
      governs: !this.#attached,
      domains,
      router,
      listener: told.hotKeys,
      degraded: told.degraded,
    });
    if (client === null || board === null) return;
    if (pool !== null) this.#guest = new PoolGuest(pool.port, client);
    else {
      const { topologies: maps, region, hot } = this.handle("own");
      const job = { workers, options, topologies: maps, region, hot, board: board.buffer };
      this.#host = new PoolHost(WORKER_PROGRAM, job, client, this.#listener);
    }
  }

  /** Contacts every domain's servers; resolves when all can serve. */
  async open(): Promise<void> {
    const { lanes, ledger } = this.#resolved;
    if (this.#host !== null) await this.#host.open();
    else if (this.#guest !== null) await this.#guest.open(lanes[0]!.connectTimeoutMs);
    else await Promise.all(this.#lanes.map((lane) => (lane instanceof DomainLane ? lane.open() : undefined)));
    if (!this.#attached && ledger !== null) await this.#openLedger(ledger);
    this.store?.opened();
    this.hotKeys.loop?.start();
    // Not waited for: what others say is welcome, and never needed.
    if (this.#source !== null) void this.hotKeys.join(this.#source, (error) => this.#listener.error(error));
  }

  /** @throws KeylaneError `KEYLANE_ERR_OPTIONS` where there is none */
  get ledger(): Ledger {
    if (this.#ledger !== null) return this.#ledger;
    const message = "there is no ledger: it needs the option `ledger`, and belongs to the thread that opened";
    throw new KeylaneError("KEYLANE_ERR_OPTIONS", message);
  }

  /** @throws KeylaneError `KEYLANE_ERR_OPTIONS` where there are none */
  get impressions(): Impressions {
    if (this.#impressions !== null) return this.#impressions;
    const message = 'impressions need a ledger of mode "durable", and belong to the thread that opened';
    throw new KeylaneError("KEYLANE_ERR_OPTIONS", message);
  }

  /** What another thread needs to attach. @throws KeylaneError `KEYLANE_ERR_ARGUMENT` for `pool` without one */
  handle(via: "own" | "pool"): KeylaneHandle {
    if (via === "pool" && this.#host === null) throw badArgument("handle: this thread has opened no pool");
    return {
      keylane: HANDLE_VERSION,
      pid: process.pid,
      options: this.#options,
      topologies: this.#lanes.map(({ topology }) => topology.buffer),
      region: this.store?.handle ?? null,
      hot: this.#hot?.handle ?? null,
      pool: via === "pool" ? this.#host!.invite() : null,
    };
  }

  stats(): Stats {
    const domains: Record<string, DomainStats> = {};
    for (const { name, lane } of this.calls.domains) {
      Object.defineProperty(domains, name, { value: lane.stats(), enumerable: true });
    }
    return {
      native: native.kind,
      cache: this.store?.stats() ?? null,
      caps: this.caps.stats(),
      hotKeys: this.hotKeys.stats(),
      domains,
    };
  }

  /** Refuses calls, waits for those accepted, ends. Resolves with how many were not settled; never rejects. */
  async close(timeoutMs: number): Promise<{ lost: number }> {
    this.store?.close();
    const { loop } = this.hotKeys;
    if (loop?.acting === true) {
      // What was done about hot keys is undone over the lanes, when callers are refused already.
      for (const domain of this.calls.domains) domain.close();
      await loop.stop(Math.min(timeoutMs, UNDO_MS));
    }
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, Math.min(timeoutMs, LONGEST_TIMER_MS));
    });
    const unbooked = this.#ledger === null ? 0 : await this.#closeLedger(this.#ledger, timeoutMs);
    await Promise.race([Promise.all(this.#lanes.map((lane) => lane.drained())), late]);
    clearTimeout(timer);
    if (this.#host === null) return { lost: this.end() + unbooked };
    // Workers know better than this thread what was sent.
    const failed = (): number => this.#lanes.reduce((sum, lane) => sum + lane.stats().failed, 0);
    const before = failed();
    await this.#host.stop(STOP_MS);
    this.end();
    return { lost: failed() - before + unbooked };
  }

  /** Gives everything back at once. Returns how many calls were not settled. Idempotent. */
  end(): number {
    this.hotKeys.loop?.end();
    this.store?.close();
    this.#impressions?.end();
    this.#ledger?.destroy();
    let lost = 0;
    for (const lane of this.#lanes) lost += lane.destroy();
    this.#host?.destroy();
    this.#guest?.leave();
    this.store?.end();
    this.#hot?.end();
    return lost;
  }

  get #lanes(): readonly Lane[] {
    return this.calls.domains.map(({ lane }) => lane);
  }

  /** The ledger goes on booking over the lanes when callers are refused, so its calls go to domains of its own. */
  async #openLedger(policy: LedgerPolicy): Promise<void> {
    const own = this.calls.domains.map(({ lane, cache }) => new Domain(lane, cache));
    const calls = new Calls(this.calls.router, own);
    const tell = (error: KeylaneError): void => this.#listener.error(error);
    const { lane } = own.find(({ name }) => name === policy.domain)!;
    const ledger = await Ledger.open(policy, {
      script: (source) => calls.script(source),
      domainOf: (key) => calls.domainOf(key).name,
      upheavals: () => lane.topology.version + lane.reconnects(),
      tell,
    });
    this.#ledger = ledger;
    if (policy.mode !== "durable") return;
    const { domain, prefix } = this.#resolved.caps;
    const counts = new BilledCounts(own[domain] ?? null, prefix);
    this.#impressions = new Impressions({ caps: this.caps, counts, ledger: ledger.parts, tell });
  }

  async #closeLedger(ledger: Ledger, timeoutMs: number): Promise<number> {
    for (const domain of this.calls.domains) domain.close();
    const began = performance.now();
    if (this.#impressions !== null) {
      // None of them waits longer than its own deadlines.
      let timer: NodeJS.Timeout | undefined;
      const late = new Promise<void>((resolve) => {
        timer = setTimeout(resolve, Math.min(timeoutMs, LONGEST_TIMER_MS));
      });
      await Promise.race([this.#impressions.close(), late]);
      clearTimeout(timer);
    }
    const lost = await ledger.close(Math.max(1, timeoutMs - (performance.now() - began)));
    this.#impressions?.end();
    return lost;
  }
}

/** @throws KeylaneError `KEYLANE_ERR_OPTIONS` for a domain that cannot be the place */
function sourceOf({ hotKeys, lanes }: Resolved): HotKeySource | null {
  const given = hotKeys?.source ?? null;
  return given === null ? null : openSource(given, (name) => lanes.find(({ domain }) => domain === name));
}

/** Takes part in hot keys, where the options want them. */
function openShare({ hotKeys }: Resolved, handle: KeylaneHandle | null): HotShare | null {
  if (hotKeys === null) return null;
  if (handle === null) return HotShare.create();
  return handle.hot === null ? null : HotShare.join(handle.hot);
}
