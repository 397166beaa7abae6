/**
 * The ioredis client of a domain, for anything rare: transactions of one's own, subscriptions, blocking commands, scans. It
 * has connections of its own, made when it is first asked for.
 */
import { Cluster, Redis } from "ioredis";
import { KeylaneError } from "../errors.js";
import type { LaneConfig } from "./config.js";

/** An ordinary ioredis client: `Cluster`, or `Redis` for a domain in single mode. */
export type RawClient = Cluster | Redis;

/** What a client needs to know of its servers. */
export type RawConfig = Pick<
  LaneConfig,
  | "domain"
  | "mode"
  | "seeds"
  | "sentinels"
  | "credentials"
  | "tls"
  | "db"
  | "connectionName"
  | "natMap"
  | "scaleReads"
  | "connectTimeoutMs"
>;

/**
 * Makes the client; the caller closes it. With `timeoutMs` it is one for work behind the scenes: a command fails after that
 * time, and at once while there is no connection; nothing is kept to be sent later, nothing is sent twice.
 */
export function openRaw(config: RawConfig, timeoutMs?: number): RawClient {
  const behind = timeoutMs === undefined ? {} : { enableOfflineQueue: false };
  const options = {
    ...(timeoutMs === undefined
      ? {}
      : { commandTimeout: timeoutMs, maxRetriesPerRequest: 0, autoResendUnfulfilledCommands: false }),
    ...config.credentials,
    ...(config.tls === undefined ? {} : { tls: config.tls }),
    connectionName: `${config.connectionName}-raw`,
    connectTimeout: config.connectTimeoutMs,
  };
  if (config.mode === "ring") {
    throw new KeylaneError("KEYLANE_ERR_COMMAND", "a ring has no single client; its servers share nothing", {
      domain: config.domain,
    });
  }
  if (config.sentinels !== undefined) {
    const { sentinels, name } = config.sentinels;
    return new Redis({
      ...options,
      ...behind,
      sentinels: sentinels.map(({ host, port }) => ({ host, port })),
      name,
      db: config.db ?? 0,
    });
  }
  if (config.mode === "single") {
    return new Redis({ ...config.seeds[0]!, ...options, ...behind, db: config.db ?? 0 });
  }
  return new Cluster(
    config.seeds.map(({ host, port }) => ({ host, port })),
    {
      ...behind,
      redisOptions: options,
      scaleReads: config.scaleReads === "master" ? "master" : config.scaleReads === "all" ? "all" : "slave",
      ...(config.natMap === undefined ? {} : { natMap: config.natMap }),
    },
  );
}
