/**
 * Plays ad traffic: a fixed number of ad requests is in flight at any time, each a profile read, then a frequency count, then
 * a billing record. The invariant: what is acknowledged is noted when its reply arrives, and at no
 * other time, so the servers' counters can be held against it afterwards.
 */
import { createHistogram } from "node:perf_hooks";
import type { RecordableHistogram } from "node:perf_hooks";
import { KeylaneError } from "../../errors.js";
import { CAMPAIGNS, SPEND_KEYS, WINDOW_MS, countKey, isProfileOf, profileKey, profileOf } from "./ads.js";
import type { AdLanes } from "./ads.js";
import type { Traffic, UserStream } from "./traffic.js";
import type { UserTable } from "./users.js";

/** Ad requests in flight. */
const IN_FLIGHT = 256;
/** Profiles written at a time while loading. */
const LOAD_BATCH = 2000;
/** A run with so many failed requests has nothing more to tell. */
const MAX_FAILED = 1000;
/** Wrong values and failures told in full. */
const TOLD = 5;
const SECOND_MS = 1000;
/** A rest shorter than this, after a line, gets no line of its own. */
const REST_MS = 100;

/** When to stop, whichever comes first; `Infinity` for no limit. */
export interface Limits {
  readonly seconds: number;
  readonly requests: number;
}

/** A second of traffic (the last one may be shorter). */
export interface Second {
  /** Since the beginning, in seconds. */
  readonly at: number;
  readonly requestsPerSec: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** Domain → its part of the commands, 0–1. */
  readonly shares: ReadonlyMap<string, number>;
  /** How much of the run is done, 0–1. */
  readonly progress: number;
}

/** What playing came to. */
export interface Tally {
  /** Ad requests completed. */
  requests: number;
  /** Ad requests in which a call failed. */
  failed: number;
  seconds: number;
  /** Of completed ad requests. */
  p50Ms: number;
  p99Ms: number;
  /** Profiles read that were the ones written, and that were not. */
  right: number;
  wrong: number;
  /** Domain → commands. */
  commands: Map<string, number>;
  /** Campaign → billed minor units acknowledged. */
  readonly spend: Float64Array;
  /** The first wrong values and failures. */
  readonly faults: string[];
}

/** Writes the profile of every user. */
export async function load(lanes: AdLanes, users: UserTable): Promise<void> {
  for (const batch of users.batches(LOAD_BATCH)) {
    await Promise.all(batch.map((user) => lanes.set(profileKey(user), profileOf(user))));
  }
}

/** Plays until a limit or the end of the traffic. Failed calls are counted, not thrown. */
export async function play(
  lanes: AdLanes,
  traffic: Traffic,
  limits: Limits,
  onSecond: (second: Second) => void,
): Promise<Tally> {
  const stream = traffic.open();
  const player = new Player(lanes, stream, traffic, limits, onSecond);
  try {
    return await player.run();
  } finally {
    await stream.close();
  }
}

class Player {
  readonly #lanes: AdLanes;
  readonly #stream: UserStream;
  readonly #users: UserTable;
  readonly #limits: Limits;
  readonly #onSecond: (second: Second) => void;
  readonly #tally: Tally = {
    requests: 0,
    failed: 0,
    seconds: 0,
    p50Ms: 0,
    p99Ms: 0,
    right: 0,
    wrong: 0,
    commands: new Map(),
    spend: new Float64Array(CAMPAIGNS),
    faults: [],
  };
  /** Latencies in microseconds: since the last line, and of the lines told. */
  readonly #recent = histogram();
  readonly #all = histogram();
  #begun = 0;
  #beganAt = 0;
  #stopAt = Infinity;
  /** State at the last line. */
  #told = { at: 0, requests: 0, commands: new Map<string, number>() };

  constructor(
    lanes: AdLanes,
    stream: UserStream,
    { users, requests }: Traffic,
    limits: Limits,
    onSecond: (second: Second) => void,
  ) {
    this.#lanes = lanes;
    this.#stream = stream;
    this.#users = users;
    this.#limits = { seconds: limits.seconds, requests: Math.min(limits.requests, requests) };
    this.#onSecond = onSecond;
  }

  async run(): Promise<Tally> {
    const tally = this.#tally;
    const before = this.#commands();
    this.#beganAt = performance.now();
    this.#stopAt = this.#beganAt + this.#limits.seconds * SECOND_MS;
    this.#told = { at: this.#beganAt, requests: 0, commands: before };
    const timer = setInterval(() => this.#tell(), SECOND_MS);
    try {
      await Promise.all(Array.from({ length: IN_FLIGHT }, () => this.#client()));
    } finally {
      clearInterval(timer);
    }
    tally.seconds = (performance.now() - this.#beganAt) / SECOND_MS;
    const { at } = this.#told;
    if (at === this.#beganAt || performance.now() - at >= REST_MS) this.#tell();
    else this.#all.add(this.#recent);
    tally.commands = difference(this.#commands(), before);
    if (this.#all.count > 0) {
      tally.p50Ms = this.#all.percentile(50) / 1000;
      tally.p99Ms = this.#all.percentile(99) / 1000;
    }
    return tally;
  }

  /** One ad request after another, going on after one that failed. */
  async #client(): Promise<void> {
    for (;;) {
      try {
        await this.#requests();
        return;
      } catch (error) {
        this.#fail(error as Error);
      }
    }
  }

  async #requests(): Promise<void> {
    const lanes = this.#lanes;
    const stream = this.#stream;
    const users = this.#users;
    const tally = this.#tally;
    while (this.#begun < this.#limits.requests && tally.failed < MAX_FAILED) {
      const user = stream.next();
      if (user < 0) {
        if (await stream.more()) continue;
        return;
      }
      const began = performance.now();
      if (began >= this.#stopAt) return;
      this.#begun += 1;

      const profile = await lanes.get(profileKey(user));
      if (isProfileOf(user, profile)) tally.right += 1;
      else {
        this.#wrong(user, profile);
        continue;
      }
      const { campaign, price } = profile;
      const counter = countKey(user, campaign);
      const count = await lanes.incrBy(counter);
      users.acknowledge(user);
      if (count === 1) await lanes.expire(counter, WINDOW_MS);
      await lanes.incrBy(SPEND_KEYS[campaign]!, price);
      tally.spend[campaign]! += price;

      tally.requests += 1;
      this.#recent.record(Math.max(1, Math.round((performance.now() - began) * 1000)));
    }
  }

  #wrong(user: number, value: unknown): void {
    this.#tally.wrong += 1;
    this.#note(`${profileKey(user)} holds ${JSON.stringify(profileOf(user))} but ${JSON.stringify(value)} was read`);
  }

  #fail(error: Error): void {
    // What is no answer of keylane (a trace that broke meanwhile, say) ends the run.
    if (!(error instanceof KeylaneError) || error.command === undefined) throw error;
    this.#tally.failed += 1;
    this.#note(`${error.message} (${error.code}, outcome ${error.outcome})`);
  }

  #note(fault: string): void {
    if (this.#tally.faults.length < TOLD) this.#tally.faults.push(fault);
  }

  /** Tells what happened since the last line. */
  #tell(): void {
    const now = performance.now();
    const { requests } = this.#tally;
    const commands = this.#commands();
    const recent = difference(commands, this.#told.commands);
    const total = [...recent.values()].reduce((sum, n) => sum + n, 0);
    const elapsed = (now - this.#beganAt) / SECOND_MS;
    const quiet = this.#recent.count === 0;
    this.#onSecond({
      at: elapsed,
      requestsPerSec: ((requests - this.#told.requests) * SECOND_MS) / (now - this.#told.at),
      p50Ms: quiet ? 0 : this.#recent.percentile(50) / 1000,
      p99Ms: quiet ? 0 : this.#recent.percentile(99) / 1000,
      shares: new Map([...recent].map(([domain, n]) => [domain, total === 0 ? 0 : n / total])),
      progress: Math.min(1, Math.max(elapsed / this.#limits.seconds, this.#begun / this.#limits.requests)),
    });
    this.#told = { at: now, requests, commands };
    this.#all.add(this.#recent);
    this.#recent.reset();
  }

  #commands(): Map<string, number> {
    const { domains } = this.#lanes.stats();
    return new Map(Object.entries(domains).map(([domain, { commands }]) => [domain, commands]));
  }
}

/** Microseconds to a minute, to three digits. */
function histogram(): RecordableHistogram {
  return createHistogram({ lowest: 1, highest: 60_000_000, figures: 3 });
}

function difference(now: Map<string, number>, before: Map<string, number>): Map<string, number> {
  return new Map([...now].map(([domain, commands]) => [domain, commands - (before.get(domain) ?? 0)]));
}
