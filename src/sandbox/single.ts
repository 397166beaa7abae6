/** Standalone servers, and the three domain clusters that the examples, the demo and the benchmarks use. */
import { type SandboxCluster, startCluster } from "./cluster.js";
import { findServer, type ServerBinary } from "./find-server.js";
import { acquire, release } from "./guard.js";
import { adminFor, SandboxNode } from "./node.js";
import type { ClusterOptions, ServerOptions } from "./options.js";
import { makeCertificates, type SandboxTls } from "./tls.js";

/** One server that is no cluster. */
export interface SandboxServer extends AsyncDisposable {
  readonly node: SandboxNode;
  /** `host:port`. */
  readonly address: string;
  readonly binary: ServerBinary;
  readonly tls: SandboxTls | undefined;
  /** Ends the server and removes its files. May be called again. */
  stop(): Promise<void>;
}

/**
 * Starts a standalone server.
 * @throws KeylaneError `KEYLANE_ERR_SANDBOX` when no server binary is found or the server does not start.
 */
export async function startSingle(options: ServerOptions = {}): Promise<SandboxServer> {
  const binary = await findServer();
  const folder = acquire();
  let stopped: Promise<void> | undefined;
  const end = async (node?: SandboxNode): Promise<void> => {
    await node?.kill();
    release(folder);
  };
  let node: SandboxNode | undefined;
  try {
    const tls = options.tls ? await makeCertificates(folder, options.tls === true ? {} : options.tls) : undefined;
    const started = new SandboxNode({ binary, folder, options, tls, admin: adminFor(options), cluster: undefined }, 0);
    node = started;
    await started.start();
    const stop = (): Promise<void> => (stopped ??= end(started));
    return { node: started, address: started.address, binary, tls, stop, [Symbol.asyncDispose]: stop };
  } catch (error) {
    await end(node);
    throw error;
  }
}

/** The three clusters of an ad server, by domain. */
export interface SandboxTriple extends AsyncDisposable {
  readonly user_profile: SandboxCluster;
  readonly freq_control: SandboxCluster;
  readonly realtime_billing: SandboxCluster;
  readonly clusters: readonly [SandboxCluster, SandboxCluster, SandboxCluster];
  /** The `domains` that `Keylane.open` takes: prefixes `up:`, `fc:`, `rb:` and the clusters' addresses. */
  readonly domains: Record<
    "user_profile" | "freq_control" | "realtime_billing",
    { prefixes: string[]; nodes: string[] }
  >;
  /** Ends all three. May be called again. */
  stop(): Promise<void>;
}

/**
 * Starts the three domain clusters side by side. Options go to each of them; unlike `startCluster`, the default node timeout
 * is 5,000 ms, since 18 servers on a small machine may be late for once.
 * @throws KeylaneError `KEYLANE_ERR_SANDBOX` as `startCluster`; nothing stays of the clusters that did start.
 */
export async function startTriple(options: ClusterOptions = {}): Promise<SandboxTriple> {
  const all = [0, 1, 2].map(() => startCluster({ nodeTimeoutMs: 5000, ...options }));
  const results = await Promise.allSettled(all);
  const clusters = results.flatMap((result) => (result.status === "fulfilled" ? [result.value] : []));
  const stop = async (): Promise<void> => {
    await Promise.all(clusters.map((cluster) => cluster.stop()));
  };
  const failed = results.find((result) => result.status === "rejected");
  if (failed !== undefined) {
    await stop();
    throw failed.reason;
  }
  const [profile, control, billing] = clusters as [SandboxCluster, SandboxCluster, SandboxCluster];
  return {
    user_profile: profile,
    freq_control: control,
    realtime_billing: billing,
    clusters: [profile, control, billing],
    domains: {
      user_profile: { prefixes: ["up:"], nodes: profile.seeds },
      freq_control: { prefixes: ["fc:"], nodes: control.seeds },
      realtime_billing: { prefixes: ["rb:"], nodes: billing.seeds },
    },
    stop,
    [Symbol.asyncDispose]: stop,
  };
}
