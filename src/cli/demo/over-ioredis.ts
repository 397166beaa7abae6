/**
 * The demo's traffic through plain ioredis clients, one a domain, with autopipelining, so that the table shows what the same
 * requests cost without keylane. The invariant: every call is one command of the client, and its reply is judged as keylane's is.
 */
import type { RawClient } from "../../lane/raw.js";
import type { AdLanes, Profile } from "./ads.js";

/** A client for each domain; one cluster for all of them is the same client three times. */
export interface DomainClients {
  readonly user_profile: RawClient;
  readonly freq_control: RawClient;
  readonly realtime_billing: RawClient;
}

/** The clients as the traffic wants them. Turns their autopipelining on. */
export function overClients(clients: DomainClients): AdLanes {
  const { user_profile: profiles, freq_control: counts, realtime_billing: spend } = clients;
  for (const { options } of [profiles, counts, spend]) options.enableAutoPipelining = true;
  const commands = { user_profile: 0, freq_control: 0, realtime_billing: 0 };
  /** Counters belong to either of two domains. */
  const of = (key: string): RawClient => {
    const counted = key.startsWith("fc:");
    commands[counted ? "freq_control" : "realtime_billing"] += 1;
    return counted ? counts : spend;
  };
  return {
    async get(key) {
      commands.user_profile += 1;
      const text = await profiles.get(key);
      return text === null ? null : (JSON.parse(text) as Profile);
    },
    async set(key, profile) {
      commands.user_profile += 1;
      return (await profiles.set(key, JSON.stringify(profile))) === "OK";
    },
    getMany: (keys) => Promise.all(keys.map((key) => of(key).get(key))),
    incrBy: (key, amount = 1) => of(key).incrby(key, amount),
    expire: async (key, ttlMs) => (await of(key).pexpire(key, ttlMs)) === 1,
    async ttl(key) {
      const left = await of(key).pttl(key);
      return left === -2 ? null : left === -1 ? Infinity : left;
    },
    stats: () => ({
      domains: {
        user_profile: { commands: commands.user_profile },
        freq_control: { commands: commands.freq_control },
        realtime_billing: { commands: commands.realtime_billing },
      },
    }),
  };
}
