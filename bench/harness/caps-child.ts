/**
 * The process of one contestant of the caps suite: keylane, or rate-limiter-flexible on an ioredis Cluster. Every decision is
 * checked: an allowed one must tell exactly the user's count, and a user over the limit must be denied.
 */
import { once } from "node:events";
import { Cluster } from "ioredis";
import { Keylane } from "keylane";
import type { Cap } from "keylane";
import { RateLimiterRedis, RateLimiterRes } from "rate-limiter-flexible";
import { parseNode } from "./nodes.js";
import { type RoundSpec, runLoop } from "./loop.js";
import { type Contestant, serve } from "./serve.js";

/** Which client, which cluster, how many users. */
export interface CapsEntry {
  readonly id: "keylane" | "rate-limiter-flexible";
  readonly nodes: readonly string[];
  readonly users: number;
}

/** What is decided in a round: one cap of many users, three caps of many users, or a user who is over the limit. */
export type CapsTask = "one" | "three" | "denied";

export interface CapsRound extends RoundSpec {
  readonly task: CapsTask;
}

/** Decides about a user; tells whether the count is the expected one, 0 for a denial. */
type Decide = (user: string, expected: number) => Promise<string>;

interface Client {
  readonly name: string;
  readonly decide: Readonly<Record<CapsTask, Decide>>;
  close(): Promise<void>;
}

const LIMIT = 1_000_000;
const DAY_MS = 86_400_000;
const AS_EXPECTED = "as expected";
const HOT = "user_who_is_denied";

const judged = (count: number, expected: number): string =>
  count === expected ? AS_EXPECTED : `${count} instead of ${expected}`;

async function openKeylane(nodes: readonly string[]): Promise<Client> {
  const lanes = await Keylane.open({
    domains: { freq_control: { prefixes: ["fc:"], nodes } },
    caps: { onError: "throw" },
    commandTimeoutMs: 10_000,
  });
  const capsOf = (...names: string[]): Cap[] => names.map((name) => ({ name, limit: LIMIT, windowMs: DAY_MS }));
  const by =
    (caps: readonly Cap[]): Decide =>
    async (user, expected) => {
      const result = await lanes.caps.take(user, caps);
      return judged(result.allowed ? result.caps[0].used : 0, expected);
    };
  const decide = {
    one: by(capsOf("campaign:1")),
    three: by(capsOf("campaign:2", "creative:2", "advertiser:2")),
    denied: by([{ name: "campaign:3", limit: 1, windowMs: DAY_MS }]),
  };
  return { name: "keylane", decide, close: () => lanes.close().then(() => undefined) };
}

/** Consumes from all limiters at once. */
function consuming(first: RateLimiterRedis, ...others: RateLimiterRedis[]): Decide {
  return async (user, expected) => {
    try {
      if (others.length === 0) return judged((await first.consume(user)).consumedPoints, expected);
      const results = await Promise.all([first.consume(user), ...others.map((one) => one.consume(user))]);
      return judged(results[0].consumedPoints, expected);
    } catch (error) {
      if (error instanceof RateLimiterRes) return judged(0, expected);
      throw error;
    }
  };
}

async function openFlexible(nodes: readonly string[]): Promise<Client> {
  const storeClient = new Cluster(nodes.map(parseNode));
  await once(storeClient, "ready");
  const limiter = (keyPrefix: string, points = LIMIT, more = {}) =>
    new RateLimiterRedis({ storeClient, keyPrefix, points, duration: DAY_MS / 1000, ...more });
  const decide = {
    one: consuming(limiter("campaign1")),
    three: consuming(limiter("campaign2"), limiter("creative2"), limiter("advertiser2")),
    denied: consuming(limiter("campaign3", 1, { inMemoryBlockOnConsumed: 1 })),
  };
  const close = async (): Promise<void> => {
    await storeClient.quit();
  };
  return { name: "rate-limiter-flexible on ioredis Cluster", decide, close };
}

serve(async ({ id, nodes, users }: CapsEntry): Promise<Contestant<CapsRound>> => {
  const client = await (id === "keylane" ? openKeylane(nodes) : openFlexible(nodes));
  const many = Array.from({ length: users }, (_, i) => `${id.slice(0, 2)}_user_${String(i).padStart(10, "0")}`);
  const order = Uint32Array.from({ length: users }, (_, i) => i);
  const values = Array.from({ length: users }, () => AS_EXPECTED);
  const cursors = { one: { at: 0 }, three: { at: 0 }, denied: { at: 0 } };

  /** Decides about the users in turn: each is one further than before. */
  const counted = (decide: Decide): ((user: string) => Promise<string>) => {
    let calls = 0;
    return (user) => decide(user, 1 + Math.floor(calls++ / users));
  };
  const { one, three, denied: deny } = client.decide;
  for (let i = 0; i < 3; i += 1) await deny(HOT, 0);
  const denied = (): Promise<string> => deny(HOT, 0);
  const tasks = { one: counted(one), three: counted(three), denied };
  return {
    name: client.name,
    role: id === "keylane" ? "keylane" : "peer",
    play: (round) => runLoop(tasks[round.task], { keys: many, values, order }, cursors[round.task], round),
    close: () => client.close(),
  };
});
