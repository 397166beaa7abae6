/**
 * A domain states its value type, and the key's prefix decides the type of a value. Checked by the compiler alone: nothing
 * here runs. `Profile` for `up:`, the longer prefix `up:vip:` for `Vip`, text for `fc:`, bytes for `raw:`, unknown JSON.
 */
import { expectTypeOf } from "expect-type";
import { type Keylane, type KeylaneError, type ValueFor, valueOf } from "keylane";

interface Profile {
  readonly name: string;
  readonly segments: readonly number[];
}

interface Vip extends Profile {
  readonly manager: string;
}

const nodes = ["127.0.0.1:7001"];
const options = {
  domains: {
    user_profile: { prefixes: ["up:", "profile:"], nodes, codec: "json", value: valueOf<Profile>() },
    vip: { prefixes: ["up:vip:"], nodes, codec: "msgpack", value: valueOf<Vip>() },
    freq_control: { prefixes: ["fc:"], nodes },
    bytes: { prefixes: ["raw:"], nodes, codec: "buffer" },
    loose: { prefixes: ["json:"], nodes, codec: "json" },
  },
} as const;
const typed = {
  domains: {
    user_profile: options.domains.user_profile,
    vip: options.domains.vip,
    freq_control: options.domains.freq_control,
  },
} as const;

type All = Keylane<(typeof options)["domains"]>;
type Typed = Keylane<(typeof typed)["domains"]>;

export async function literalKeys(lanes: All, id: number, name: string): Promise<void> {
  expectTypeOf(await lanes.get("up:1")).toEqualTypeOf<Profile | null>();
  expectTypeOf(await lanes.get(`up:${id}`)).toEqualTypeOf<Profile | null>();
  expectTypeOf(await lanes.get(`up:${name}`)).toEqualTypeOf<Profile | null>();
  expectTypeOf(await lanes.get(`profile:${id}:x`)).toEqualTypeOf<Profile | null>();
  expectTypeOf(await lanes.get(`fc:${id}`)).toEqualTypeOf<string | null>();
  expectTypeOf(await lanes.get("raw:1")).toEqualTypeOf<Buffer | null>();
  expectTypeOf(await lanes.get("json:1")).toEqualTypeOf<unknown>();
}

export async function longestPrefix(lanes: All, id: number): Promise<void> {
  expectTypeOf(await lanes.get("up:vip:1")).toEqualTypeOf<Vip | null>();
  expectTypeOf(await lanes.get(`up:vip:${id}`)).toEqualTypeOf<Vip | null>();
  expectTypeOf(await lanes.get("up:vi")).toEqualTypeOf<Profile | null>();
}

export async function anyKey(lanes: Typed, key: string, bytes: Uint8Array): Promise<void> {
  expectTypeOf(await lanes.get(key)).toEqualTypeOf<Profile | Vip | string | null>();
  expectTypeOf(await lanes.get(bytes)).toEqualTypeOf<Profile | Vip | string | null>();
  expectTypeOf(await lanes.get("nobody's:1")).toEqualTypeOf<Profile | Vip | string | null>();
}

export async function oneOfTwoKeys(lanes: All, key: "up:1" | "fc:1"): Promise<void> {
  expectTypeOf(await lanes.get(key)).toEqualTypeOf<Profile | string | null>();
}

export async function writing(lanes: All, id: number, profile: Profile, vip: Vip): Promise<void> {
  expectTypeOf(await lanes.set(`up:${id}`, profile)).toEqualTypeOf<boolean>();
  await lanes.set("up:1", { name: "n", segments: [1] }, { ttlMs: 5, ifAbsent: true });
  await lanes.set(`up:vip:${id}`, vip);
  await lanes.set(`fc:${id}`, "1");
  await lanes.set("raw:1", Buffer.from("x"));
  await lanes.set("json:1", { anything: [1, null] });
  // @ts-expect-error a Profile is not text
  await lanes.set(`up:${id}`, "text");
  // @ts-expect-error a Profile has segments
  await lanes.set("up:1", { name: "n" });
  // @ts-expect-error a Vip has a manager: the longer prefix decides
  await lanes.set(`up:vip:${id}`, profile);
  // @ts-expect-error frequency counters are text
  await lanes.set("fc:1", { count: 1 });
  // @ts-expect-error bytes are bytes
  await lanes.set("raw:1", profile);
  // @ts-expect-error nothing is no value
  await lanes.set("fc:1", undefined);
  // @ts-expect-error there is no such option
  await lanes.set("fc:1", "1", { ttl: 5 });
}

export async function many(lanes: All, ids: readonly `up:${number}`[], keys: readonly string[]): Promise<void> {
  const tuple = await lanes.getMany(["up:1", "fc:1", "raw:1", "up:vip:2"]);
  expectTypeOf(tuple).toEqualTypeOf<[Profile | null, string | null, Buffer | null, Vip | null]>();
  expectTypeOf(await lanes.getMany(ids)).toEqualTypeOf<(Profile | null)[]>();
  expectTypeOf(await lanes.getMany(keys)).toEqualTypeOf<unknown[]>();
  const settled = await lanes.getMany(["up:1", "fc:1"], { onError: "return" });
  expectTypeOf(settled).toEqualTypeOf<[Profile | null | KeylaneError, string | null | KeylaneError]>();
}

export function unstated(lanes: Keylane, key: string): void {
  expectTypeOf(lanes.get(key)).resolves.toEqualTypeOf<string | null>();
  expectTypeOf<ValueFor<Record<string, { codec: "buffer" }>, string>>().toEqualTypeOf<Buffer>();
  expectTypeOf<ValueFor<Record<string, { codec: "msgpack" }>, "k">>().toEqualTypeOf<unknown>();
}

export async function opened(open: typeof Keylane.open): Promise<void> {
  const lanes = await open(options);
  expectTypeOf(lanes).toEqualTypeOf<All>();
  expectTypeOf(await lanes.get("up:1")).toEqualTypeOf<Profile | null>();
  const inline = await open({ domains: { p: { prefixes: ["p:"], nodes, codec: "json", value: valueOf<Profile>() } } });
  expectTypeOf(await inline.get("p:1")).toEqualTypeOf<Profile | null>();
  // @ts-expect-error there is no such codec
  await open({ domains: { a: { nodes, codec: "xml" } } });
}
