/**
 * What the cache suite stores. Profiles as the demo has them, one a user, whose fields follow from the user's number; and for
 * the row about memory plain keys of 25 bytes with values of 32. The invariant: every contestant gets the same keys as the same
 * strings, and copies of its own of the values, so that none compares a value with itself.
 */
import { profileOf, type Profile } from "#dist/cli/demo/ads.js";
import { encodeCommand, setAll } from "./nodes.js";
import type { Pass } from "./passes.js";

/** Keys with the JSON that a server holds for each. */
export interface ProfileSet {
  readonly keys: readonly string[];
  readonly texts: readonly string[];
  /** In which order a pass reads them: at random, as requests come. */
  readonly order: readonly number[];
  /** The two fields that are compared. */
  readonly users: Int32Array;
  readonly prices: Int32Array;
}

/** A sequential string with bytes of its own. */
export function flat(text: string): string {
  return Buffer.from(text, "latin1").toString("latin1");
}

/** Profiles of the users 0 … `count` − 1. */
export function profiles(count: number): ProfileSet {
  const of = Array.from({ length: count }, (_, user) => profileOf(user));
  return {
    keys: of.map(({ user }) => flat(`up:user_${String(user).padStart(10, "0")}`)),
    texts: of.map((profile) => flat(JSON.stringify(profile))),
    users: Int32Array.from(of, ({ user }) => user),
    prices: Int32Array.from(of, ({ price }) => price),
    order: shuffled(count),
  };
}

/** 0 … `count` − 1, in the same random order each time (Fisher–Yates, drawn by a multiplicative congruential generator). */
function shuffled(count: number): number[] {
  const order = Array.from({ length: count }, (_, i) => i);
  let state = 20_261_130;
  for (let i = count - 1; i > 0; i -= 1) {
    state = Math.imul(state, 0x915f77f5) + 1;
    const j = (state >>> 0) % (i + 1);
    [order[i], order[j]] = [order[j]!, order[i]!];
  }
  return order;
}

/** A set's keys and what is compared, in the order in which a pass reads them. */
function inTurn({ keys, users, prices, order }: ProfileSet): Pick<ProfileSet, "keys" | "users" | "prices"> {
  return {
    keys: order.map((at) => keys[at]!),
    users: Int32Array.from(order, (at) => users[at]!),
    prices: Int32Array.from(order, (at) => prices[at]!),
  };
}

/** A profile as a service gets it: parsed from the text that the server holds. */
export function parsed({ texts }: ProfileSet, at: number): Profile {
  return JSON.parse(texts[at]!) as Profile;
}

/** Key number `i` of the memory row: 25 bytes. */
export function smallKey(i: number): string {
  return flat(`up:user_${String(i).padStart(17, "0")}`);
}

/** Its value: 32 bytes in which neighbours differ at both ends. */
export function smallValue(i: number): string {
  const mixed = (Math.imul(i ^ (i >>> 15), 0x9e3779b1) >>> 0).toString(16).padStart(8, "0");
  return flat(`${mixed}:${String(i).padStart(14, "0")}:${mixed}`);
}

/** Writes `count` keys to the server at `address`. */
export function write(
  address: string,
  count: number,
  keyOf: (i: number) => string,
  valueOf: (i: number) => string,
): Promise<void> {
  return setAll(address, count, (i) => encodeCommand("SET", keyOf(i), valueOf(i)));
}

/** A pass over all profiles of a cache that answers at once. */
export function profilePass(set: ProfileSet, get: (key: string) => Profile | null | undefined): Pass {
  const { keys, users, prices } = inTurn(set);
  const count = keys.length;
  return () => {
    let wrong = 0;
    for (let i = 0; i < count; i += 1) {
      const profile = get(keys[i]);
      if (profile === undefined || profile === null || profile.user !== users[i] || profile.price !== prices[i])
        wrong += 1;
    }
    return wrong;
  };
}

/** A pass over all profiles of a cache that answers by promises, one after the other. */
export function awaitedPass(set: ProfileSet, get: (key: string) => Promise<Profile | null | undefined>): Pass {
  const { keys, users, prices } = inTurn(set);
  const count = keys.length;
  return async () => {
    let wrong = 0;
    for (let i = 0; i < count; i += 1) {
      const profile = await get(keys[i]);
      if (profile === undefined || profile === null || profile.user !== users[i] || profile.price !== prices[i])
        wrong += 1;
    }
    return wrong;
  };
}

/** As `awaitedPass`, of a cache that gives the texts. */
export function textPass(
  { keys, texts, order }: ProfileSet,
  get: (key: string) => Promise<string | null>,
): () => Promise<number> {
  const [asked, wanted] = [order.map((at) => keys[at]!), order.map((at) => texts[at]!)];
  return async () => {
    let wrong = 0;
    for (let i = 0; i < asked.length; i += 1) if ((await get(asked[i]!)) !== wanted[i]) wrong += 1;
    return wrong;
  };
}
