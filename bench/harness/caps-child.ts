/**
 * The process of one contestant of the caps suite: keylane, or rate-limiter-flexible on an ioredis Cluster. Every decision is
 * checked: an allowed one must tell exactly the user's count, and a user over the limit must be denied.
 */
import { once } from "node:events";
import { Cluster } from "ioredis";
import { Keylane } from "keylane";
import type { Cap, CapsResult } from "keylane";
import { RateLimiterRedis, RateLimiterRes } from "rate-limiter-flexible";
import { parseNode } from "./nodes.js";
import { flat } from "./keys.js";
import { type Counter, type RoundSpec, runCounter } from "./loop.js";
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

/** Decides about a user. */
type Decide = (user: string) => Promise<unknown>;

interface Client {
  readonly name: string;
  readonly decide: Readonly<Record<CapsTask, Decide>>;
  /** The user's count that a decision tells, 0 for a denial; NaN for what is no decision. */
  countOf(decision: unknown, rejected: boolean): number;
  close(): Promise<void>;
}

const LIMIT = 1_000_000;
const DAY_MS = 86_400_000;
const HOT = "user_who_is_denied";

function countOfKeylane(decision: unknown, rejected: boolean): number {
  if (rejected) return Number.NaN;
  const { allowed, caps } = decision as CapsResult;
  return allowed ? caps[0].used : 0;
}

async function openKeylane(nodes: readonly string[]): Promise<Client> {
  const lanes = await Keylane.open({
    domains: { freq_control: { prefixes: ["fc:"], nodes } },
    caps: { onError: "throw" },
    commandTimeoutMs: 10_000,
  });
  const capsOf = (...names: string[]): Cap[] => names.map((name) => ({ name, limit: LIMIT, windowMs: DAY_MS }));
  const by =
    (caps: readonly Cap[]): Decide =>
    (user) =>
      lanes.caps.take(user, caps);
  const decide = {
    one: by(capsOf("campaign:1")),
    three: by(capsOf("campaign:2", "creative:2", "advertiser:2")),
    denied: by([{ name: "campaign:3", limit: 1, windowMs: DAY_MS }]),
  };
  return {
    name: "keylane",
    decide,
    countOf: countOfKeylane,
    close: () => lanes.close().then(() => undefined),
  };
}

const consuming =
  (one: RateLimiterRedis): Decide =>
  (user) =>
    one.consume(user);

const together =
  (limiters: readonly RateLimiterRedis[]): Decide =>
  (user) =>
    Promise.all(limiters.map((one) => one.consume(user)));

/** A denial is what `consume` is rejected with. */
function countOfFlexible(decision: unknown, rejected: boolean): number {
  if (rejected) return decision instanceof RateLimiterRes ? 0 : Number.NaN;
  return (Array.isArray(decision) ? (decision[0] as RateLimiterRes) : (decision as RateLimiterRes)).consumedPoints;
}

async function openFlexible(nodes: readonly string[]): Promise<Client> {
  const storeClient = new Cluster(nodes.map(parseNode));
  await once(storeClient, "ready");
  const limiter = (keyPrefix: string, points = LIMIT, more = {}) =>
    new RateLimiterRedis({ storeClient, keyPrefix, points, duration: DAY_MS / 1000, ...more });
  const denied = limiter("campaign3", 1, { inMemoryBlockOnConsumed: 1 });
  const decide = {
    one: consuming(limiter("campaign1")),
    three: together([limiter("campaign2"), limiter("creative2"), limiter("advertiser2")]),
    denied: consuming(denied),
  };
  const close = async (): Promise<void> => {
    await storeClient.quit();
  };
  return {
    name: "rate-limiter-flexible on ioredis Cluster",
    decide,
    countOf: countOfFlexible,
    close,
  };
}

serve(async ({ id, nodes, users }: CapsEntry): Promise<Contestant<CapsRound>> => {
  const client = await (id === "keylane" ? openKeylane(nodes) : openFlexible(nodes));
  const many = Array.from({ length: users }, (_, i) => flat(`${id.slice(0, 2)}_user_${String(i).padStart(10, "0")}`));
  const { decide, countOf } = client;
  const counted = (ask: Decide): Counter => ({ keys: many, calls: 0, ask, countOf, expected: (nth) => nth });
  for (let i = 0; i < 3; i += 1) await decide.denied(HOT).catch(() => undefined);
  const tasks: Record<CapsTask, Counter> = {
    one: counted(decide.one),
    three: counted(decide.three),
    denied: { keys: [HOT], calls: 0, ask: decide.denied, countOf, expected: () => 0 },
  };
  return {
    name: client.name,
    role: id === "keylane" ? "keylane" : "peer",
    play: (round) => runCounter(tasks[round.task], round),
    close: () => client.close(),
  };
});
