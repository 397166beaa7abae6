/**
 * `keylane/sandbox`: real Redis or Valkey servers on loopback ports, for demos, tests and benchmarks. Every server and file
 * is gone when the process that started it ends, in whatever way it ends.
 *
 * ```ts
 * import { startCluster } from "keylane/sandbox";
 * await using cluster = await startCluster({ primaries: 3, replicas: 1 });
 * console.log(cluster.seeds);                          // ["127.0.0.1:12345", …]
 * await cluster.moveSlots([[0, 99]], cluster.primaries[0], cluster.primaries[1]);
 * ```
 */
export { RespClient, type RespOptions } from "./client.js";
export { type SandboxCluster, startCluster } from "./cluster.js";
export { findServer, type ServerBinary } from "./find-server.js";
export type { SandboxNode } from "./node.js";
export type { Announce, ClusterOptions, ServerConfig, ServerOptions } from "./options.js";
export { encodeCommand, formatAddress, type Reply, ReplyError, ReplyParser, toText } from "./resp.js";
export { type SandboxServer, type SandboxTriple, startSingle, startTriple } from "./single.js";
export type { SlotMove } from "./slots.js";
export type { SandboxTls, SandboxTlsOptions } from "./tls.js";
export { type NodeLine, parseNodes } from "./topology.js";
