/** Makes the source that the options name. Nothing is dialled before it is started. */
import { KeylaneError } from "../../errors.js";
import type { RawConfig } from "../../lane/raw.js";
import type { GivenSource, SourceOf } from "../../options/hot-key-source.js";
import { ApolloCarrier } from "./apollo.js";
import type { Carrier } from "./carrier.js";
import { EtcdCarrier } from "./etcd.js";
import { FileCarrier } from "./file.js";
import { NacosCarrier } from "./nacos.js";
import { RedisCarrier } from "./redis.js";
import { SharedSource } from "./shared-source.js";

/** What a test may set. */
export interface OpenSourceOptions {
  /** A monotonic clock in milliseconds. */
  readonly clock?: () => number;
  readonly holder?: string;
}

/**
 * `laneOf` gives the servers of a domain by its name, undefined when there is no such domain.
 * @throws KeylaneError `KEYLANE_ERR_OPTIONS`
 */
export function openSource(
  given: GivenSource,
  laneOf: (domain: string) => RawConfig | undefined,
  options: OpenSourceOptions = {},
): SharedSource {
  const lane = given.kind === "redis" ? laneFor(given, laneOf) : null;
  return new SharedSource((holder) => carrierOf(given, holder, lane), { beatMs: given.beatMs, ...options });
}

function carrierOf(given: GivenSource, holder: string, lane: RawConfig | null): Carrier {
  switch (given.kind) {
    case "file":
      return new FileCarrier(holder, given);
    case "redis":
      return new RedisCarrier(holder, given, lane);
    case "etcd":
      return new EtcdCarrier(holder, given);
    case "nacos":
      return new NacosCarrier(holder, given);
    case "apollo":
      return new ApolloCarrier(holder, given);
  }
}

function laneFor({ domain }: SourceOf<"redis">, laneOf: (domain: string) => RawConfig | undefined): RawConfig | null {
  if (domain === undefined) return null;
  const lane = laneOf(domain);
  if (lane === undefined) throw refused(`there is no domain ${JSON.stringify(domain)}`);
  if (lane.mode === "ring") throw refused("a ring has no one place for it; name a domain of another mode, or a url");
  return lane;
}

function refused(message: string): KeylaneError {
  return new KeylaneError("KEYLANE_ERR_OPTIONS", `hotKeys.source.domain: ${message}`);
}
