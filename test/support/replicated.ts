/**
 * Copies of hot keys without anything that finds hot keys: a test says which keys have them. The hot set is that of an open
 * keylane, so its threads read and write through the copies.
 */
import { after } from "node:test";
import type { Keylane, OpenOptions } from "keylane";
import type { SandboxCluster, SandboxNode } from "keylane/sandbox";
import { Replicas } from "#dist/hotkeys/replicas.js";
import { native } from "#dist/native/index.js";
import { resolveOptions } from "#dist/options.js";
import { Router } from "#dist/routing/router.js";
import { Topology } from "#dist/routing/topology.js";
import { HotSet } from "#dist/shared/hot-set.js";
import type { HotEntry } from "#dist/shared/hot-set.js";
import { openLanes } from "./lanes.js";
import { until } from "./until.js";

/** Thresholds that nothing reaches: what is copied is up to the test. */
const NEVER = { warn: 1e9, critical: 2e9 } as const;

/** One domain, `up:`, on a cluster; nothing is found hot by itself. */
export function replicatedOn(cluster: SandboxCluster, more: object = {}, domain: object = {}): OpenOptions {
  return {
    domains: { users: { prefixes: ["up:"], nodes: cluster.seeds, ...domain } },
    refreshIntervalMs: 300,
    refreshMinimumMs: 100,
    hotKeys: NEVER,
    ...more,
  };
}

/** A keylane whose copied keys are chosen by the test. */
export class Replicated {
  readonly lanes: Keylane;
  readonly replicas: Replicas;
  readonly set: HotSet;
  /** Reasons told as degraded. */
  readonly degraded: string[] = [];
  /** Keys told to change too often. */
  readonly restless: string[] = [];
  readonly #keys = new Set<string>();

  private constructor(lanes: Keylane, options: OpenOptions) {
    const { hot, topologies } = lanes.handle();
    const { lanes: configs, prefixes, fallback } = resolveOptions(options);
    const domains = configs.map((config, at) => ({ config, topology: new Topology(topologies[at]) }));
    this.lanes = lanes;
    this.set = new HotSet(hot!.set);
    this.replicas = new Replicas(domains, new Router(prefixes, fallback), {
      publish: () => this.#publish(),
      degraded: (_, reason) => this.degraded.push(reason),
      restless: (_, key) => this.restless.push(key),
    });
  }

  /** Opens for one test. */
  static async open(options: OpenOptions): Promise<Replicated> {
    const lanes = (await openLanes(options)) as unknown as Keylane;
    const made = new Replicated(lanes, options);
    after(() => made.replicas.close(500));
    return made;
  }

  /** Names of the copies of a key of the first domain. */
  of(key: string): readonly string[] {
    return this.replicas.of(0, key).replicas;
  }

  /** Wants copies, by default however often the key changes. */
  want(key: string, count: number, always = true): void {
    this.#keys.add(key);
    this.replicas.want(0, key, count, always);
  }

  /** Adopts copies of another process. */
  adopt(key: string, names: readonly string[]): void {
    this.#keys.add(key);
    this.replicas.adopt(0, key, names);
  }

  /** Wants copies, and resolves once all are filled. Gives their names. */
  async copy(key: string, count: number, cluster: SandboxCluster): Promise<readonly string[]> {
    this.want(key, count);
    return this.filled(key, count, cluster);
  }

  /** Resolves once a key has `count` copies that are filled. */
  filled(key: string, count: number, cluster: SandboxCluster): Promise<readonly string[]> {
    const whole = async (): Promise<readonly string[] | null> => {
      const names = this.of(key);
      const nodes = await Promise.all(names.map((name) => this.holderOf(name, cluster)));
      return names.length === count && nodes.every((node) => node !== null) ? names : null;
    };
    return until(whole, { what: `${count} copies of ${key}` });
  }

  /** The primary that holds a key now, null when none does. */
  async holderOf(key: string, cluster: SandboxCluster): Promise<SandboxNode | null> {
    for (const node of cluster.primaries) {
      const held = await node.command("EXISTS", key).catch(() => 0);
      if (held === 1) return node;
    }
    return null;
  }

  /** The primaries on which names would live now. */
  async nodesOf(
    names: readonly string[],
    cluster: SandboxCluster,
  ): Promise<{ readonly name: string; readonly node: SandboxNode }[]> {
    const nodes = names.map((name) => cluster.ownerOf(native.slot(name)));
    return (await Promise.all(nodes)).map((node, at) => ({ name: names[at]!, node }));
  }

  #publish(): void {
    const entries: HotEntry[] = [];
    for (const key of this.#keys) entries.push({ key, domain: 0, cached: false, ...this.replicas.of(0, key) });
    this.set.publish(entries);
  }
}

/** All keys on the primaries of a cluster, except those of which `mine` says so; with their remaining life. */
export async function leftovers(
  cluster: SandboxCluster,
  mine: (key: string) => boolean,
): Promise<{ readonly key: string; readonly ttl: number }[]> {
  const found: { key: string; ttl: number }[] = [];
  for (const node of cluster.primaries) {
    for (const name of (await node.command("KEYS", "*")) as unknown[]) {
      const key = String(name);
      if (!mine(key)) found.push({ key, ttl: Number(await node.command("PTTL", key)) });
    }
  }
  return found;
}
