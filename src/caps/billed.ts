/**
 * Counts of impressions that are billed. Nothing is decided here: the count is made whatever the limits say, in the windows of the
 * time at which the impression happened, and once by its id, however often it is asked for. `onError` plays no part.
 */
import type { Domain } from "../cache/domain.js";
import { noDecision, noDomain, otherCaps } from "./decider.js";
import { Planner } from "./plan.js";
import { Figures, Status } from "./reply.js";
import { DECIDE, HEAD_SCRIPT, keyOf } from "./scripts.js";
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
    const send = (): Promise<Figures | null> => {
      const asked = ["1", keyOf(this.#prefix, user), plan.question("b", this.#offsetMs)];
      const words = [...asked, id, plan.mark, String(rememberMs), String(at)];
      const shape = new Figures(plan.caps.length);
      return domain.lane.call(
        HEAD_SCRIPT,
        DECIDE.sha,
        words,
        shape,
        undefined,
        DECIDE.source,
      ) as Promise<Figures | null>;
    };
    let reply = await send();
    if (reply?.status === Status.OTHER_TIME) {
      this.#offsetMs = reply.now - Date.now();
      reply = await send();
    }
    if (reply === null || reply.status === Status.OTHER_TIME) throw noDecision(domain);
    if (reply.status === Status.OTHER_CAPS) throw otherCaps();
  }
}
