/**
 * The scripts of the caps against a model that keeps every count and every place held as a moment of its own: random operations on
 * a few users, on a real server. The model is told the server's time of each decision and judges with it.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { assert as check, asyncProperty, constantFrom, array, integer, oneof, record, subarray } from "fast-check";
import type { SandboxServer } from "keylane/sandbox";
import { CivilWindows } from "#dist/caps/civil.js";
import { Planner } from "#dist/caps/plan.js";
import type { Plan } from "#dist/caps/plan.js";
import { DECIDE, KEY_AT, UNDO } from "#dist/caps/scripts.js";
import type { Cap } from "keylane";
import { useSingle } from "../../support/fixtures.js";

const SUB_BUCKETS = 60;
/** The server's time, as the scripts tell it. */
const CLOCK =
  "local time = redis.call('TIME') local ms = time[1] * 1000 + math.floor(time[2] / 1000) " +
  "local before = { math.floor(ms / 1000000), ms % 1000000 }";

type Operation = "c" | "t" | "r" | "m" | "f" | "l";

interface Step {
  /** `n`: a take without an id, which is asked in short when all windows are fixed. */
  readonly op: Operation | "n";
  readonly id: number;
  readonly caps: readonly number[];
  readonly limit: number;
  readonly life: number;
  readonly pause: number;
}

/** Windows of a few milliseconds to a month, so that some end during a run. */
const WINDOWS: readonly Omit<Cap, "limit">[] = [
  { name: "fixed short", windowMs: 40 },
  { name: "fixed long", windowMs: 60_000 },
  { name: "sliding short", windowMs: 60, sliding: true },
  { name: "sliding tiny", windowMs: 7, sliding: true },
  { name: "sliding long", windowMs: 60_000, sliding: true },
  { name: "civil", per: "month", timeZone: "Asia/Kathmandu" },
  { name: "fixed other", windowMs: 90 },
] as readonly Omit<Cap, "limit">[];

const steps = array(
  record({
    op: constantFrom<Operation | "n">("c", "t", "t", "n", "n", "n", "r", "m", "f", "l"),
    id: integer({ min: 0, max: 5 }),
    caps: oneof(subarray([0, 1, 2, 3, 4, 5], { minLength: 1, maxLength: 3 }), subarray([0, 1, 6], { minLength: 1 })),
    limit: integer({ min: 1, max: 4 }),
    life: constantFrom(10, 50, 5000),
    pause: oneof({ weight: 5, arbitrary: constantFrom(0) }, constantFrom(3, 12, 45)),
  }),
  { minLength: 5, maxLength: 40 },
);

interface Moment {
  readonly ends: number;
  readonly id: string;
}

interface Known {
  readonly ends: number;
  readonly mark: string;
  readonly held: boolean;
  /** What it has counted, by field. */
  readonly moments: ReadonlyMap<string, Moment>;
}

/** What the scripts should do, with every count apart. */
class Model {
  readonly #counts = new Map<string, Moment[]>();
  readonly #ids = new Map<string, Known>();

  #live(field: string, now: number): Moment[] {
    const live = (this.#counts.get(field) ?? []).filter(({ ends }) => ends > now);
    this.#counts.set(field, live);
    return live;
  }

  used(field: string, now: number): number {
    return this.#live(field, now).length;
  }

  known(id: string, now: number): Known | undefined {
    const known = this.#ids.get(id);
    return known !== undefined && known.ends > now ? known : undefined;
  }

  /** End of a count made now. Holds do not open a window. */
  #endOf(cap: Cap, field: string, now: number): number {
    if (cap.per !== undefined) return new CivilWindows(cap.per, cap.timeZone!).at(now).until;
    if (cap.sliding === true) {
      const sub = Math.ceil(cap.windowMs / SUB_BUCKETS);
      return (Math.floor(now / sub) + 1) * sub - 1 + cap.windowMs;
    }
    const open = this.#live(field, now).findLast(({ id }) => !id.startsWith("held"));
    return open?.ends ?? now + cap.windowMs;
  }

  decide(op: Operation, plan: Plan, id: string, life: number, now: number): number {
    const known = id === "" ? undefined : this.known(id, now);
    const { mark, caps } = plan;
    if (op !== "c" && known !== undefined && known.mark !== mark) return -2;
    const commits = op !== "c" && known?.held === true && op !== "r";
    if (op !== "c" && known !== undefined && !commits) return 2;
    const full = caps.some(({ field, limit }) => this.used(field, now) >= limit);
    if (full && !commits) return 0;
    if (op === "c") return 1;
    const moments = new Map<string, Moment>();
    let longest = 0;
    for (const { field, cap } of caps) {
      const ends = op === "r" ? now + life : this.#endOf(cap, field, now);
      const moment = { ends, id: op === "r" ? `held ${id}` : id };
      moments.set(field, moment);
      const others = this.#live(field, now).filter((one) => one !== known?.moments.get(field));
      this.#counts.set(field, [...others, moment]);
      longest = Math.max(longest, cap.per === undefined ? cap.windowMs : 27 * 86_400_000);
    }
    if (id !== "") this.#ids.set(id, { ends: now + (op === "r" ? life : longest), mark, held: op === "r", moments });
    return 1;
  }

  undo(op: Operation, plan: Plan, id: string, now: number): number {
    const known = this.known(id, now);
    if (known === undefined || (op === "l" && !known.held)) return 0;
    if (known.mark !== plan.mark) return -2;
    for (const [field, moment] of known.moments) {
      this.#counts.set(
        field,
        this.#live(field, now).filter((one) => one !== moment),
      );
    }
    this.#ids.delete(id);
    return 1;
  }
}

/** What a script answers, behind the server's time just before it: in short when it is a text, or a list of such. */
function answerOf([high, low, reply]: [number, number, unknown]): { status: number; now: number; figures: number[] } {
  const short = typeof reply === "string" ? [reply] : (reply as unknown[]);
  if (typeof short[0] !== "string") {
    const [status, upper, lower, ...figures] = short as [number, number, number, ...number[]];
    return { status, now: upper * 1_000_000 + lower, figures };
  }
  const now = high * 1_000_000 + low;
  const counts = (short as string[]).map((text) => text.split(":").map(Number) as [number, number]);
  return { status: 1, now, figures: counts.flatMap(([ends, used]) => [used, ends - now, ends - now]) };
}

async function play(server: SandboxServer, user: string, sequence: readonly Step[]): Promise<void> {
  const planner = new Planner();
  const model = new Model();
  const key = `fc:caps:{${user}}`;
  for (const [at, { op, id, caps, limit, life, pause }] of sequence.entries()) {
    const plan = planner.plan(caps.map((index) => Object.assign({}, WINDOWS[index]!, { limit }) as Cap));
    const told = `step ${at}: ${op} ${id}`;
    const run = async (source: string, ...args: readonly string[]): Promise<ReturnType<typeof answerOf>> => {
      const timed = `${CLOCK} local function script() ${source} end return { before[1], before[2], script() }`;
      return answerOf((await server.node.command("EVAL", timed, 1, key, ...args)) as [number, number, unknown]);
    };
    const question = plan.question(op === "n" ? "t" : op, 0);
    if (op === "f" || op === "l") {
      const { status, now } = await run(UNDO.source, question, String(id), plan.mark);
      assert.equal(status, model.undo(op, plan, String(id), now), told);
    } else {
      const named = [question, String(id), plan.mark, String(life)];
      const words =
        op === "n" ? plan.template("t", 0, "fc:caps:{").args.slice(KEY_AT + 1) : op === "c" ? [question] : named;
      const { status, now, figures } = await run(DECIDE.source, ...words);
      const expected =
        op === "n" ? model.decide("t", plan, "", life, now) : model.decide(op, plan, String(id), life, now);
      assert.equal(status, expected, told);
      if (status === -2) continue;
      assert.deepEqual(
        plan.caps.map((_, i) => figures[3 * i]),
        plan.caps.map(({ field }) => model.used(field, now)),
        told,
      );
      for (const [i] of plan.caps.entries())
        assert.ok(figures[3 * i + 1]! > 0, `${told}: resets in ${figures[3 * i + 1]}`);
      if (status !== 0 && op !== "c") assert.ok((await server.node.command("PTTL", key)) !== -1, `${told}: no TTL`);
    }
    if (pause > 0) await sleep(pause);
  }
}

describe("scripts of the caps", () => {
  const single = useSingle();

  it("C1: any operations in any order give what a model of single counts gives; no key is without a TTL", async () => {
    let user = 0;
    const runs = asyncProperty(steps, (sequence) => {
      user += 1;
      return play(single.value, `model ${user}`, sequence);
    });
    await check(runs, { numRuns: Number(process.env["KEYLANE_CAPS_RUNS"] ?? 60) });
    for (let i = 1; i <= user; i += 1) {
      assert.notEqual(await single.value.node.command("PTTL", `fc:caps:{model ${i}}`), -1);
    }
  });
});
