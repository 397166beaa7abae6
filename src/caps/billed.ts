/**
 * Counts of impressions that are billed. Nothing is decided here: the count is made whatever the limits say, in the windows of the
 * time at which the impression happened, and once by its id, however often it is asked for. `onError` plays no part.
 */
import type { Domain } from "../cache/domain.js";
import { RAW_SHAPE } from "../lane/replies.js";
import type { Reply } from "../types.js";
import { HEAD_SCRIPT, noDecision, noDomain, otherCaps } from "./decider.js";
import { markOf, Planner } from "./plan.js";
import { HEAD_WORDS, isDecision, Status } from "./reply.js";
import { DECIDE, keyOf } from "./scripts.js";
import type { Cap } from "./types.js";

export class BilledCounts {
  readonly #domain: Domain | null;
  readonly #prefix: string;
  readonly #planner = new Planner();
  /** The server's clock less this process's, as far as it mattered. */
  #offsetMs = 0;

  constructor(domain: Domain | null, prefix: string) {
    this.#domain = domain;
    this.#prefix = prefix;
  }

  /** Changes whenever roles or connections of the servers have changed, so that counts may be gone. */
  upheavals(): number {
    if (this.#domain === null) return 0;
    const { lane } = this.#domain;
    return lane.topology.version + lane.reconnects();
  }

  /**
   * Counts one for each cap; `at` is the server's time. The id is remembered for `rememberMs` at least.
   *
   * @throws (rejects) KeylaneError `KEYLANE_ERR_ARGUMENT` when the id stands for other caps; whatever a call may reject with
   */
  async count(user: string, caps: readonly Cap[], id: string, at: number, rememberMs: number): Promise<void> {
    const domain = this.#domain;
    if (domain === null) throw noDomain();
    const plan = this.#planner.plan(caps);
    const head = ["1", keyOf(this.#prefix, user), `b${at}`, id, markOf(plan), String(rememberMs)];
    const send = (now: number): Promise<Reply> => {
      const words = [...head, String(plan.length)];
      for (const cap of plan) words.push(cap.field, cap.limitText, cap.window(now));
      return domain.lane.call(HEAD_SCRIPT, DECIDE.sha, words, RAW_SHAPE, undefined, DECIDE.source) as Promise<Reply>;
    };
    let reply = await send(Date.now() + this.#offsetMs);
    if (isDecision(reply, HEAD_WORDS) && reply[0] === Status.OTHER_TIME) {
      this.#offsetMs = reply[1]! - Date.now();
      reply = await send(reply[1]!);
    }
    if (!isDecision(reply, HEAD_WORDS) || reply[0] === Status.OTHER_TIME) throw noDecision(domain);
    if (reply[0] === Status.OTHER_CAPS) throw otherCaps();
  }
}
