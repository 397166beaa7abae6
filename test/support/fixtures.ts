/**
 * The rigs of the tests as node:test fixtures: call one in a `describe` (or at the top of a file) and read its `value` in
 * tests and hooks; the servers start before the first test of that suite and are gone after its last.
 *
 *     const c6 = useC6();
 *     test("…", async () => { await c6.value.failover(c6.value.replicas[0]!); });
 */
import { after, before } from "node:test";
import {
  type ClusterOptions,
  type SandboxCluster,
  type SandboxServer,
  type SandboxTriple,
  type ServerOptions,
  startCluster,
  startSingle,
  startTriple,
} from "keylane/sandbox";

/** Something that exists between `before` and `after`. */
export interface Fixture<T> {
  /** @throws Error outside the suite's hooks and tests. */
  readonly value: T;
}

/** Makes a fixture of anything that starts and stops. */
export function useFixture<T>(start: () => Promise<T>, stop: (value: T) => Promise<unknown>): Fixture<T> {
  let held: { readonly value: T } | undefined;
  before(
    async () => {
      held = { value: await start() };
    },
    { timeout: 60_000 },
  );
  after(
    async () => {
      if (held !== undefined) await stop(held.value);
      held = undefined;
    },
    { timeout: 30_000 },
  );
  return {
    get value(): T {
      if (held === undefined) throw new Error("the fixture exists only inside the suite's hooks and tests");
      return held.value;
    },
  };
}

/** C3: three primaries, `cluster-node-timeout 1000`. */
export function useC3(options: ClusterOptions = {}): Fixture<SandboxCluster> {
  return useFixture(
    () => startCluster({ primaries: 3, nodeTimeoutMs: 1000, ...options }),
    (cluster) => cluster.stop(),
  );
}

/** C6: C3 plus one replica each. */
export function useC6(options: ClusterOptions = {}): Fixture<SandboxCluster> {
  return useC3({ replicas: 1, ...options });
}

/** The three domain clusters, by default of three primaries each. */
export function useTriple(options: ClusterOptions = {}): Fixture<SandboxTriple> {
  return useFixture(
    () => startTriple(options),
    (triple) => triple.stop(),
  );
}

/** One standalone server. */
export function useSingle(options: ServerOptions = {}): Fixture<SandboxServer> {
  return useFixture(
    () => startSingle(options),
    (server) => server.stop(),
  );
}
