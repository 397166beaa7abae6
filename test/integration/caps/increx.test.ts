/**
 * takeKey by INCREX beside takeKey by the script. No server at hand has INCREX, so a scripted one plays it, with the semantics
 * that Redis 8.8 and Valkey 9.2 document; the script's decisions come from a real server.
 */
import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import type { CapsResult, Keylane } from "keylane";
import { useSingle } from "../../support/fixtures.js";
import { openLanes, rejection } from "../../support/lanes.js";
import { failure, Stub, type StubCall, type StubReply } from "../../support/stub.js";
import { until } from "../../support/until.js";

const HOUR = 3_600_000;
const NOW = 1_900_000_000_000;
const TOKENS = {
  redis: ["BYFLOAT", "BYINT", "SATURATE"],
  valkey: ["NX", "XX", "BYINT", "BYFLOAT", "SATURATE"],
} as const;
const COMMON = ["LBOUND", "UBOUND", "EX", "PX", "EXAT", "PXAT", "PERSIST", "ENX"];
type Flavour = keyof typeof TOKENS;

/** One counter of the scripted server: its number, and when it ends; null without TTL. */
interface Counter {
  value: number;
  end: number | null;
}

const docsOf = (tokens: readonly string[]): StubReply => [
  "increx",
  ["summary", "…", "arguments", tokens.map((token) => ["name", token.toLowerCase(), "token", token])],
];

/** Answers INCREX and the reads behind it for `counters`. */
function play(stub: Stub, counters: Map<string, Counter>): void {
  const counterOf = ({ args }: StubCall): Counter | undefined => counters.get(String(args[1]));
  stub.answer("INCREX", (call) => {
    const words = call.args.slice(2).map(String);
    const argument = (name: string): number => Number(words[words.indexOf(name) + 1]);
    const counter = counterOf(call) ?? { value: 0, end: null };
    const value = counter.value + argument("BYINT");
    if (value > argument("UBOUND") || value < argument("LBOUND")) return [counter.value, 0];
    counter.value = value;
    if (words.includes("ENX")) counter.end ??= NOW + argument("PX");
    counters.set(String(call.args[1]), counter);
    return [value, 1];
  });
  stub.answer("PTTL", (call) => (counterOf(call)?.end ?? NOW - 1) - NOW);
  stub.answer("PEXPIRETIME", (call) => counterOf(call)?.end ?? -1);
}

async function open(address: string): Promise<Keylane> {
  const domains = { freq: { prefixes: ["fc:"], nodes: [address], mode: "single" } } as const;
  return (await openLanes({ domains, caps: { onError: "throw" } })) as unknown as Keylane;
}

async function scripted(t: TestContext, tokens: readonly string[]): Promise<{ stub: Stub; lanes: Keylane }> {
  const stub = await Stub.start({ cluster: false });
  t.after(() => stub.stop());
  stub.answer("COMMAND DOCS", () => docsOf(tokens));
  stub.answer("EVALSHA", () => [1, 1_900_000, 0, 1, HOUR, HOUR, 0]);
  return { stub, lanes: await open(stub.address) };
}

/** Has the servers asked whether they know INCREX, and waits until calls go by it. */
async function warm({ stub, lanes }: { stub: Stub; lanes: Keylane }): Promise<void> {
  await until(async () => {
    await lanes.caps.takeKey("fc:warm", { limit: 1_000_000, windowMs: HOUR });
    return stub.calls("INCREX").length > 0;
  });
}

/** A decision but for its times, which are two servers'. */
function told({ allowed, source, caps }: CapsResult): unknown {
  return { allowed, source, caps: caps.map(({ name, limit, used, remaining }) => [name, limit, used, remaining]) };
}

describe("takeKey by INCREX", () => {
  const single = useSingle();

  for (const flavour of ["redis", "valkey"] as const satisfies readonly Flavour[]) {
    it(`decides as the script does, in ${flavour}'s syntax`, async (t) => {
      const { stub, lanes } = await scripted(t, [...TOKENS[flavour], ...COMMON]);
      const counters = new Map<string, Counter>();
      play(stub, counters);
      await warm({ stub, lanes });
      const node = await open(single.value.address);
      const table = [
        { name: "fresh", value: null, limit: 2, calls: 4 },
        { name: "half full", value: 3, limit: 5, calls: 3 },
        { name: "full", value: 5, limit: 5, calls: 1 },
        { name: "over", value: 9, limit: 5, calls: 1 },
        { name: "one", value: null, limit: 1, calls: 2 },
        { name: "large", value: 2 ** 40, limit: 2 ** 40 + 1, calls: 2 },
      ];
      for (const { name, value, limit, calls } of table) {
        const key = `fc:${flavour}:${name}`;
        if (value !== null) {
          counters.set(key, { value, end: NOW + HOUR / 2 });
          await single.value.node.command("SET", key, value, "PX", HOUR / 2);
        }
        for (let i = 0; i < calls; i += 1) {
          const [ours, theirs] = await Promise.all(
            [lanes, node].map((one) => one.caps.takeKey(key, { limit, windowMs: HOUR })),
          );
          assert.deepEqual(told(ours!), told(theirs!), `${name}, call ${i}`);
          assert.equal(ours!.caps[0]!.resetsAtMs, NOW + (value === null ? HOUR : HOUR / 2), name);
        }
      }
      const [first] = stub.calls("INCREX").map(({ args }) => args.slice(2).map(String).join(" "));
      const own = {
        redis: "BYINT 1 LBOUND 1 UBOUND 1000000 PX 3600000 ENX",
        valkey: "PX 3600000 ENX BYINT 1 LBOUND 1 UBOUND 1000000",
      };
      assert.equal(first, own[flavour]);
    });
  }

  it("what INCREX cannot say in full is the script's to decide", async (t) => {
    const { stub, lanes } = await scripted(t, [...TOKENS.redis, ...COMMON]);
    const counters = new Map<string, Counter>([
      ["fc:negative", { value: -5, end: NOW + HOUR }],
      ["fc:endless", { value: 9, end: null }],
    ]);
    play(stub, counters);
    await warm({ stub, lanes });
    const before = stub.calls("EVALSHA").length;
    await lanes.caps.takeKey("fc:negative", { limit: 3, windowMs: HOUR });
    await lanes.caps.takeKey("fc:endless", { limit: 3, windowMs: HOUR });
    await lanes.caps.takeKey("fc:identified", { limit: 3, windowMs: HOUR, id: "1" });
    assert.equal(stub.calls("EVALSHA").length, before + 3);
    assert.equal(counters.get("fc:negative")!.value, -5);
    assert.equal(counters.has("fc:identified"), false);
  });

  it("C7: an error of INCREX is no count; one that says it is unknown sends calls back to the script", async (t) => {
    const { stub, lanes } = await scripted(t, [...TOKENS.redis, ...COMMON]);
    play(stub, new Map());
    await warm({ stub, lanes });
    stub.answer("INCREX", () => failure("WRONGTYPE Operation against a key holding the wrong kind of value"));
    await rejection(lanes.caps.takeKey("fc:list", { limit: 3, windowMs: HOUR }), "KEYLANE_ERR_WRONGTYPE");
    stub.answer("INCREX", () => 7);
    await rejection(lanes.caps.takeKey("fc:odd", { limit: 3, windowMs: HOUR }), "KEYLANE_ERR_PROTOCOL");
    stub.answer("INCREX", () => failure("ERR unknown command 'INCREX'"));
    const calls = (): number => stub.calls("INCREX").length;
    assert.equal((await lanes.caps.takeKey("fc:old", { limit: 3, windowMs: HOUR })).allowed, true);
    const then = calls();
    assert.equal((await lanes.caps.takeKey("fc:old", { limit: 3, windowMs: HOUR })).allowed, true);
    assert.equal(calls(), then);
  });

  it("a server whose INCREX has no bounds, or no INCREX, is asked by script", async (t) => {
    for (const tokens of [["NX", "XX", "EX", "PX", "BYINT"], []]) {
      const { stub, lanes } = await scripted(t, tokens);
      for (let i = 0; i < 3; i += 1) await lanes.caps.takeKey(`fc:${i}`, { limit: 3, windowMs: HOUR });
      await until(() => stub.calls("COMMAND DOCS").length === 1);
      await lanes.caps.takeKey("fc:last", { limit: 3, windowMs: HOUR });
      assert.deepEqual([stub.calls("INCREX").length, stub.calls("EVALSHA").length], [0, 4]);
    }
  });
});
