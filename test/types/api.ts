/** The rest of the public API's types: results, errors, events, options. Checked by the compiler alone. */
import { expectTypeOf } from "expect-type";
import { ERRORS, type KeylaneError } from "keylane";
import type {
  CommandMessage,
  DomainStats,
  Impression,
  ImpressionResult,
  HotKeyEvent,
  HotKeyInfo,
  HotKeyRecoveredEvent,
  HotKeys,
  HotKeysStats,
  Keylane,
  KeylaneErrorCode,
  NodeStats,
  Outcome,
  RawClient,
  Reply,
  Route,
  Stats,
  TopKey,
} from "keylane";

export async function results(lanes: Keylane): Promise<void> {
  expectTypeOf(lanes.route("k")).toEqualTypeOf<Route>();
  expectTypeOf(await lanes.del("k")).toEqualTypeOf<boolean>();
  expectTypeOf(await lanes.exists(new Uint8Array())).toEqualTypeOf<boolean>();
  expectTypeOf(await lanes.expire("k", 5)).toEqualTypeOf<boolean>();
  expectTypeOf(await lanes.ttl("k")).toEqualTypeOf<number | null>();
  expectTypeOf(await lanes.incrBy("k", 5n)).toEqualTypeOf<number | bigint>();
  expectTypeOf(await lanes.command("HGETALL", "k")).toEqualTypeOf<Reply>();
  expectTypeOf(lanes.redis("d")).toEqualTypeOf<RawClient>();
  expectTypeOf(lanes.stats()).toEqualTypeOf<Stats>();
  expectTypeOf(lanes.stats().domains["d"]!).toEqualTypeOf<DomainStats>();
  expectTypeOf(lanes.stats().domains["d"]!.nodes).toEqualTypeOf<readonly NodeStats[]>();
  expectTypeOf(await lanes.close({ timeoutMs: 5 })).toEqualTypeOf<{ lost: number }>();
  expectTypeOf(lanes).toExtend<AsyncDisposable>();
  // @ts-expect-error a key is text or bytes
  await lanes.get(5);
  // @ts-expect-error a life is a number of milliseconds
  await lanes.expire("k", "5");
  // @ts-expect-error an amount is an integer
  await lanes.incrBy("k", "5");
  await lanes.get("k", { signal: AbortSignal.timeout(5), timeoutMs: 5 });
  // @ts-expect-error there is no such option
  await lanes.get("k", { timeout: 5 });
}

export function errors(error: KeylaneError): void {
  expectTypeOf(error.code).toEqualTypeOf<KeylaneErrorCode>();
  expectTypeOf<KeylaneErrorCode>().toEqualTypeOf<keyof typeof ERRORS>();
  expectTypeOf(error.outcome).toEqualTypeOf<Outcome>();
  expectTypeOf<Outcome>().toEqualTypeOf<"not-sent" | "rejected" | "unknown">();
  expectTypeOf(error.retryable).toEqualTypeOf<boolean>();
  expectTypeOf(error.slot).toEqualTypeOf<number | undefined>();
  expectTypeOf<CommandMessage["error"]>().toEqualTypeOf<KeylaneErrorCode | null>();
  // @ts-expect-error there is no such code
  const code: KeylaneErrorCode = "KEYLANE_ERR_SURPRISE";
  expectTypeOf(code).toBeString();
}

export function hotKeys(lanes: Keylane): void {
  expectTypeOf(lanes.hotKeys).toEqualTypeOf<HotKeys>();
  expectTypeOf(lanes.hotKeys.list()).toEqualTypeOf<HotKeyInfo[]>();
  expectTypeOf(lanes.hotKeys.top(5)).toEqualTypeOf<TopKey[]>();
  expectTypeOf(lanes.hotKeys.pin("k", { replicas: 2 })).toEqualTypeOf<void>();
  expectTypeOf(lanes.hotKeys.unpin("k")).toEqualTypeOf<boolean>();
  expectTypeOf(lanes.stats().hotKeys).toEqualTypeOf<HotKeysStats>();
  lanes.on("hotkey", (event) => {
    expectTypeOf(event).toEqualTypeOf<HotKeyEvent>();
    expectTypeOf(event.level).toEqualTypeOf<"warn" | "critical">();
    expectTypeOf(event.action).toEqualTypeOf<"none" | "l1" | "replicas">();
    expectTypeOf(event.node).toEqualTypeOf<string | null>();
  });
  lanes.on("hotkey:recovered", (event) => expectTypeOf(event).toEqualTypeOf<HotKeyRecoveredEvent>());
  // @ts-expect-error only text can be pinned
  lanes.hotKeys.pin(new Uint8Array());
}

export function events(lanes: Keylane): void {
  lanes.on("topology", (event) => expectTypeOf(event).toEqualTypeOf<{ domain: string; version: number }>());
  lanes.on("node:up", (event) => expectTypeOf(event).toEqualTypeOf<{ domain: string; node: string }>());
  lanes.on("node:down", (event) =>
    expectTypeOf(event).toEqualTypeOf<{ domain: string; node: string; reason: string }>(),
  );
  lanes.on("degraded", (event) => expectTypeOf(event).toEqualTypeOf<{ domain: string; reason: string }>());
  lanes.on("error", (error) => expectTypeOf(error).toEqualTypeOf<KeylaneError>());
  // @ts-expect-error there is no such event
  lanes.on("nodeup", () => undefined);
}

export async function impressions(lanes: Keylane, impression: Impression): Promise<void> {
  const result = await lanes.impression(impression);
  expectTypeOf(result).toEqualTypeOf<ImpressionResult>();
  expectTypeOf(result.source).toEqualTypeOf<"redis" | "cache" | "degraded" | "spool">();
  expectTypeOf(result.deniedBy).toEqualTypeOf<"caps" | "budget" | null>();
  const { user, caps, account, id } = impression;
  await lanes.impression({ user, caps, account, amount: 5n, id, budget: { name: "b", limit: 9n }, timeoutMs: 5 });
  // @ts-expect-error an amount is a bigint of minor units
  await lanes.impression({ user, caps, account, amount: 5, id });
  // @ts-expect-error without an id nothing could be made sure of
  await lanes.impression({ user, caps, account, amount: 5n });
}
