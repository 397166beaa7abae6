/**
 * Impressions: counted at the frequency cluster and billed at the billing cluster, or neither, though no transaction spans the
 * two. The spool of the ledger decides: one record, the entry together with what is to be counted (the intent), is on disk
 * or it is not.
 *
 * ```text
 *            reserve, by id           one fsync                      count, by id        entry booked, by id
 * asked ───▶ reserved ─────────────▶ billed: allowed ───────────────▶ counted ──────────▶ done
 *   │          │ process dies, disk full,     │ from here on it is counted and booked, whatever dies: at the next
 *   │          │ budget used up               │ open, and after each change of a cluster's roles or connections
 *   │          ▼                              ▼
 *   │         released, or expires           all that the spool holds is counted and booked again; ids make that once
 *   ├─ caps denied ─▶ denial in the spool: denied
 *   └─ no decision ─▶ degraded: neither counted nor billed; a reservation that came about expires
 * ```
 *
 * Before the record there is only a reservation, which ends by itself: nothing to recover. After it the count is certain, so it is
 * made whatever the caps say by then: the reservation may have expired, or a failover may have lost it. Since the order is
 * billed, then counted, an id that the frequency servers know as counted (`b`) is billed: it is answered and not
 * billed anew. The invariant: counted for good ⇒ billed ⇒ counted in the end.
 */
import type { BilledCounts } from "../caps/billed.js";
import type { Caps } from "../caps/caps.js";
import type { CapState, CapsResult } from "../caps/types.js";
import { KeylaneError } from "../errors.js";
import type { LedgerParts } from "../ledger/ledger.js";
import type { CallOptions } from "../types.js";
import { Counter } from "./counter.js";
import { answerOf, checkImpression, denialText, intentText, otherImpression } from "./intent.js";
import type { Asked } from "./intent.js";
import type { Impression, ImpressionResult } from "./types.js";

/** Answers of one generation; two are kept. */
const GENERATION = 65_536;

/** A call, under way or answered. */
interface Call {
  readonly mark: number;
  readonly answer: Promise<ImpressionResult>;
}

/** What the facade gives. */
export interface ImpressionsHome {
  readonly caps: Caps;
  /** Goes on when callers are refused. */
  readonly counts: BilledCounts;
  readonly ledger: LedgerParts;
  /** Tells a fault that belongs to no call. */
  tell(error: KeylaneError): void;
}

/** Impressions of one instance. */
export class Impressions {
  readonly #caps: Caps;
  readonly #ledger: LedgerParts;
  readonly #counter: Counter;
  /** By id: calls that repeat one share its answer. */
  #young = new Map<string, Call>();
  #old = new Map<string, Call>();
  readonly #active = new Set<Promise<unknown>>();
  #closed = false;

  /** Begins to count what an earlier process left in the spool. */
  constructor({ caps, counts, ledger, tell }: ImpressionsHome) {
    this.#caps = caps;
    this.#ledger = ledger;
    const { spool, policy } = ledger;
    // The ledger's servers forget an id after twice its retention at most.
    this.#counter = new Counter(counts, spool.journal, 2 * policy.idRetentionMs, tell);
  }

  /** See `Keylane.impression`. */
  ask(request: Impression): Promise<ImpressionResult> {
    try {
      const asked = checkImpression(request);
      const { id } = request;
      const known = this.#young.get(id) ?? this.#old.get(id);
      if (known !== undefined && known.mark !== asked.mark) throw otherImpression(id);
      if (known !== undefined) return known.answer;
      if (this.#closed) throw new KeylaneError("KEYLANE_ERR_CLOSED", "keylane is closed");
      return this.#begin(id, asked);
    } catch (error) {
      return Promise.reject(error as Error);
    }
  }

  /** Takes no more; resolves when those taken are answered. */
  async close(): Promise<void> {
    this.#closed = true;
    while (this.#active.size > 0) await Promise.allSettled(this.#active);
  }

  /** Ends it at once. */
  end(): void {
    this.#closed = true;
    this.#counter.end();
  }

  #begin(id: string, asked: Asked): Promise<ImpressionResult> {
    const answer = this.#answer(asked);
    const call = { mark: asked.mark, answer };
    if (this.#young.size >= GENERATION) {
      this.#old = this.#young;
      this.#young = new Map();
    }
    this.#young.set(id, call);
    this.#active.add(answer);
    const forget = (): void => {
      for (const map of [this.#young, this.#old]) if (map.get(id) === call) map.delete(id);
    };
    answer
      .then(({ source }) => (source === "degraded" ? forget() : undefined), forget)
      .finally(() => this.#active.delete(answer));
    return answer;
  }

  async #answer(asked: Asked): Promise<ImpressionResult> {
    const { user, caps, id, timeoutMs, signal } = asked.request;
    const found = this.#ledger.spool.journal.find(id);
    if (found !== null) return answerOf(found, asked);
    const call = { timeoutMs, signal };
    const told = { settled: false, at: 0 };
    const held = await this.#caps.hold(user, caps, { id, ...call }, told);
    if (!held.allowed && held.source !== "degraded") return this.#deny(asked, "caps", held);
    if (held.source === "degraded") return answer(held, false, held.allowed ? null : "caps");
    if (told.settled) return answer(held, true, null);
    return this.#bill(asked, held, told.at, call);
  }

  async #bill(asked: Asked, held: CapsResult, heldAt: number, call: CallOptions): Promise<ImpressionResult> {
    const { budget, at } = asked;
    const { account, amount, id } = asked.request;
    const { spool, budgets } = this.#ledger;
    if (budget !== null && !(await this.#charge(asked, call))) return this.#deny(asked, "budget", held);
    try {
      await spool.add(account, id, amount, at, budget?.name ?? "", intentText(asked, heldAt, held.caps));
    } catch (error) {
      if ((error as KeylaneError).outcome === "not-sent") {
        if (budget !== null) budgets.putBack(budget.name, amount);
        this.#release(asked);
      }
      throw error;
    }
    return answer(held, true, null);
  }

  /** Takes the amount out of the budget; when it cannot, the places are given back. */
  async #charge(asked: Asked, call: CallOptions): Promise<boolean> {
    let charged = false;
    try {
      charged = await this.#ledger.budgets.take(asked.budget!, asked.request.amount, call);
      return charged;
    } finally {
      if (!charged) this.#release(asked);
    }
  }

  async #deny(asked: Asked, by: "caps" | "budget", held: CapsResult): Promise<ImpressionResult> {
    const states: readonly CapState[] = held.caps;
    await this.#ledger.spool.deny(asked.request.id, asked.at, denialText(by, states));
    return answer({ ...held, allowed: false }, false, by);
  }

  /** A reservation that cannot be given back expires. */
  #release({ request: { user, caps, id } }: Asked): void {
    this.#caps.release(user, caps, { id }).catch(() => undefined);
  }
}

function answer(
  { allowed, caps, source }: CapsResult,
  booked: boolean,
  deniedBy: ImpressionResult["deniedBy"],
): ImpressionResult {
  return { allowed, caps, booked, deniedBy, source };
}
