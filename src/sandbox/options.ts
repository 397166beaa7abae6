/** What a sandbox can be asked for. All options are optional; the defaults give a plain server that keeps nothing on disk. */
import type { SandboxTlsOptions } from "./tls.js";

/**
 * Lines of the server's configuration: a value is written as it stands (an empty one as `""`), an array as several lines.
 * They come last, so they override what the sandbox sets by itself.
 */
export type ServerConfig = Readonly<Record<string, string | number | readonly string[]>>;

/** Options that every sandbox server takes. */
export interface ServerOptions {
  /** Loopback address to listen on (default `127.0.0.1`; `::1` for IPv6). */
  readonly host?: string | undefined;
  /** More configuration lines. */
  readonly config?: ServerConfig | undefined;
  /** Password of the default user (`requirepass`). */
  readonly password?: string | undefined;
  /** ACL users as `user` lines without the word: `"app on >secret ~* &* +@all"`. */
  readonly users?: readonly string[] | undefined;
  /** Serve TLS only, with certificates made for this sandbox. */
  readonly tls?: boolean | SandboxTlsOptions | undefined;
  /** Deadline of start-up, in milliseconds (default 30,000). */
  readonly startTimeoutMs?: number | undefined;
}

/** What one cluster node tells clients about its address; unset fields stay true to the facts. */
export interface Announce {
  readonly ip?: string | undefined;
  readonly port?: number | undefined;
  readonly hostname?: string | undefined;
  /** What CLUSTER SLOTS, MOVED and ASK name: needs Redis 7.0 or Valkey. */
  readonly endpoint?: "ip" | "hostname" | "unknown-endpoint" | undefined;
}

/** Options of `startCluster`. */
export interface ClusterOptions extends ServerOptions {
  /** Primaries, each with an equal share of the slots (default 3). */
  readonly primaries?: number | undefined;
  /** Replicas of each primary (default 0). */
  readonly replicas?: number | undefined;
  /** `cluster-node-timeout`, in milliseconds (default 1,000). */
  readonly nodeTimeoutMs?: number | undefined;
  /**
   * What each node announces, by its index and port: primaries first, then replicas. The cluster's own links use the real
   * bus ports, but replicas dial their primary at the announced address.
   */
  readonly announce?: ((index: number, port: number) => Announce) | undefined;
}
