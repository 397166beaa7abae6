/**
 * How ioredis is to dial a node: what of a lane's options are its own. It sends nothing by itself once the connection is ready, and
 * nothing twice.
 */
import type { RedisOptions } from "ioredis";
import type { Address } from "../routing/topology.js";
import type { LaneConfig, SentinelConfig } from "./config.js";
import type { SocketSource } from "./connector.js";

/** As the constructor takes them whose replies come as they always did. */
export type DialOptions = RedisOptions & { replyMapping?: "legacy" };

/** Options of the connection to one node, dialled by `source` unless Sentinels tell where to; `pause` gives the delay before a dial. */
export function dialOptions(
  config: LaneConfig,
  source: SocketSource,
  address: Address,
  replica: boolean,
  pause: () => number,
): DialOptions {
  const { sentinels, credentials, tls, db, connectTimeoutMs } = config;
  const way = sentinels === undefined ? { Connector: source.Connector, ...address } : throughSentinels(sentinels);
  const options: RedisOptions = {
    ...(way as RedisOptions),
    ...credentials,
    ...(tls === undefined ? {} : { tls }),
    ...(db === undefined ? {} : { db }),
    connectionName: config.connectionName,
    readOnly: config.mode === "cluster" && replica && config.scaleReads !== "master",
    lazyConnect: true,
    enableReadyCheck: false,
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    autoResubscribe: false,
    disableClientInfo: true,
    maxRetriesPerRequest: null,
    commandTimeout: connectTimeoutMs,
    connectTimeout: connectTimeoutMs,
    retryStrategy: pause,
  };
  return options as DialOptions;
}

function throughSentinels({ sentinels, name, username, password }: SentinelConfig): RedisOptions {
  return {
    sentinels: sentinels.map(({ host, port }) => ({ host, port })),
    name,
    role: "master",
    failoverDetector: true,
    sentinelRetryStrategy: backOff,
    ...(username === undefined ? {} : { sentinelUsername: username }),
    ...(password === undefined ? {} : { sentinelPassword: password }),
  };
}

/** Delay before dial number `times`: exponential from 50 ms to 2 s, with full jitter in its upper half. */
export function backOff(times: number): number {
  const delay = Math.min(2000, 50 * 2 ** Math.min(times - 1, 6));
  return Math.round(delay * (0.5 + Math.random() / 2));
}
