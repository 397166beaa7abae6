/**
 * Does what the refusal table says: follows MOVED and ASK, waits and tries again, runs a script from its source. The
 * invariant: only the refused operation is sent again, only inside its deadline, and later operations of its slot do not
 * overtake it (see `holds.ts`).
 */
import { KeylaneError } from "../errors.js";
import { native } from "../native/index.js";
import { FLAG_ASKING, FLAG_READ, HEAD_FLAGS_SHIFT, KEY_NONE, Opcode } from "../native/types.js";
import type { Address, Topology } from "../routing/topology.js";
import type { LaneConfig } from "./config.js";
import { mapAddress } from "./discover.js";
import type { Fleet } from "./fleet.js";
import type { Holds } from "./holds.js";
import type { NodeLane } from "./node.js";
import { HEAD_UNCOUNTED, OP_INTERNAL, OP_MULTI, OP_QUEUED, QUEUED, SETTLED, headOf } from "./op.js";
import type { Op } from "./op.js";
import { parseRedirect, replyError, ruleFor } from "./refusal.js";

/** First delay before a refused operation is tried again; doubles up to `RETRY_MAX_MS`. */
const RETRY_MIN_MS = 10;
const RETRY_MAX_MS = 250;
/** MOVED is followed at once so many times; after that two nodes disagree, and only their gossip can settle it. */
const MOVED_AT_ONCE = 4;

/** What the redirector needs of its lane. */
export interface Detours {
  readonly config: LaneConfig;
  readonly topology: Topology;
  readonly fleet: Fleet;
  readonly holds: Holds;
  readonly counts: { moved: number; asked: number; retries: number };
  failed(op: Op, error: KeylaneError): void;
  /** Queues an operation for the next turn. */
  enqueue(op: Op): void;
  /** Sends operations to one node now, or has them wait for it. */
  offer(index: number, ops: Op[]): void;
  /** Takes a retry from the lane's budget; false when it is used up. */
  mayRetry(now: number): boolean;
  /** Wishes for a fresh topology. */
  refresh(): void;
  /** Tells a fault that belongs to no call, once. */
  tell(error: KeylaneError): void;
  contextOf(op: Op, node: NodeLane | null): object;
}

export class Redirector {
  readonly #lane: Detours;

  constructor(lane: Detours) {
    this.#lane = lane;
  }

  /** Judges one error reply. */
  refused(op: Op, reply: string, node: NodeLane): void {
    if ((op.flags & (OP_MULTI | OP_QUEUED)) !== 0) {
      noteRefusal(op, reply);
      return;
    }
    const message = op.block?.refusal ?? reply;
    if (op.block !== null) op.block.refusal = null;
    const { action } = ruleFor(message);
    if (op.block?.broken === true) this.#broken(op, message, node);
    else if (action === "moved") this.#moved(op, message, node);
    else if (op.state === SETTLED) return;
    else if (action === "surface" || (op.flags & OP_INTERNAL) !== 0) this.#surface(op, message, node);
    else if (action === "ask") this.#asked(op, message, node);
    else if (action === "eval") this.#evalOnce(op, message, node);
    else if (action === "primary" && node.replica) {
      node.linked = false;
      this.toPrimary(op);
    } else this.#retryLater(op, message, node, action === "refresh");
  }

  /**
   * Sends an operation that certainly did not run (or only reads) once more: before later ones of its slot, and when `fence`
   * has answered all it was sent.
   */
  askAgain(op: Op, fence: NodeLane | null): void {
    this.#lane.counts.retries += 1;
    op.attempts += 1;
    op.state = QUEUED;
    const { key } = op;
    if (key === null) this.#lane.enqueue(op);
    else this.#lane.holds.addFenced(native.slot(key), op, fence);
  }

  /** Holds the slot back until the operation may be tried again, or gives the refusal when the deadline comes first. */
  delay(op: Op, slot: number, node: NodeLane | null, refusal: KeylaneError): void {
    const now = performance.now();
    const pause = Math.min(RETRY_MAX_MS, RETRY_MIN_MS * 2 ** Math.min(op.attempts, 8)) * (0.5 + Math.random() / 2);
    // Waiting for a node troubles no server, so it takes nothing from the budget.
    if (now + pause >= op.deadline || (node !== null && !this.#lane.mayRetry(now))) {
      this.#lane.holds.giveUp(slot, op, now + pause);
      this.#lane.failed(op, refusal);
      return;
    }
    this.#lane.counts.retries += 1;
    op.attempts += 1;
    op.state = QUEUED;
    op.refusal = refusal;
    this.#lane.holds.addDelayed(slot, op, node, now + pause);
  }

  /** The map is corrected even when nobody waits for the operation any more. */
  #moved(op: Op, message: string, node: NodeLane): void {
    const { topology, counts, config, holds } = this.#lane;
    const redirect = parseRedirect(message);
    if (redirect === null) {
      if (op.state !== SETTLED) this.#surface(op, message, node);
      return;
    }
    const target = this.#addressOf(op, redirect.address, node);
    if (target === null) return;
    const { slot } = redirect;
    counts.moved += 1;
    topology.assign(slot, target);
    this.#lane.refresh();
    if (op.state === SETTLED) return;
    const { key } = op;
    const agreed = key !== null && native.slot(key) === slot;
    if ((op.flags & OP_INTERNAL) !== 0 || (!agreed && op.attempts >= config.maxRedirections)) {
      this.#surface(op, message, node);
      return;
    }
    if (node.replica) op.head &= ~(FLAG_READ << HEAD_FLAGS_SHIFT);
    // Nodes that go on disagreeing are given time, as long as the deadline allows: an answer late beats none.
    if (agreed && op.attempts >= Math.min(MOVED_AT_ONCE, config.maxRedirections)) {
      this.#retryLater(op, message, node, false);
      return;
    }
    counts.retries += 1;
    op.attempts += 1;
    op.state = QUEUED;
    if (agreed) holds.addFenced(slot, op, node);
    // The server computes another slot than we do (a managed product may): its word decides, for this operation.
    else this.#lane.offer(topology.intern(target), [op]);
  }

  #asked(op: Op, message: string, node: NodeLane): void {
    const { topology, counts, config, fleet, holds } = this.#lane;
    const redirect = parseRedirect(message);
    const address = redirect === null ? null : this.#addressOf(op, redirect.address, node);
    const target = address === null ? null : fleet.at(topology.intern(address));
    if (op.state === SETTLED) return;
    if (target === null || op.attempts >= config.maxRedirections) {
      this.#surface(op, message, node);
      return;
    }
    counts.asked += 1;
    const { key } = op;
    // An operation of the slot that is held back must not be overtaken by a later one.
    if (!target.accepts(2) || (key !== null && holds.blocks(native.slot(key), op))) {
      this.#retryLater(op, message, node, false);
      return;
    }
    counts.retries += 1;
    op.attempts += 1;
    const { head } = op;
    op.head |= FLAG_ASKING << HEAD_FLAGS_SHIFT;
    target.send([op], true);
    op.head = head;
  }

  /** The refused EVALSHA did not run; EVAL runs it and loads the script, so the next call is one EVALSHA again. */
  #evalOnce(op: Op, message: string, node: NodeLane): void {
    if (op.script === null || (op.head & 0xff) !== Opcode.EVALSHA) {
      this.#surface(op, message, node);
      return;
    }
    op.expand();
    op.head = headOf(Opcode.GENERIC, op.key === null ? KEY_NONE : 3, op.isRead) | (op.head & HEAD_UNCOUNTED);
    op.first = "EVAL";
    op.rest = [op.script, ...op.rest!];
    this.askAgain(op, node);
  }

  /** A replica that is loading or has lost its primary is no authority: the primary is asked. */
  toPrimary(op: Op): void {
    op.head &= ~(FLAG_READ << HEAD_FLAGS_SHIFT);
    this.askAgain(op, null);
  }

  #retryLater(op: Op, message: string, node: NodeLane, refresh: boolean): void {
    if (refresh) this.#lane.refresh();
    const refusal = replyError(message, this.#lane.contextOf(op, node));
    const key = op.key;
    if (key === null) this.#lane.failed(op, refusal);
    else this.delay(op, native.slot(key), node, refusal);
  }

  #surface(op: Op, message: string, node: NodeLane): void {
    this.#lane.failed(op, replyError(message, this.#lane.contextOf(op, node)));
  }

  /** MULTI was refused and the rest was not: what the commands did is not known. */
  #broken(op: Op, message: string, node: NodeLane): void {
    this.#lane.failed(op, replyError(message, { ...this.#lane.contextOf(op, node), outcome: "unknown" }));
  }

  /** A redirect's address as this client must dial it. When the NAT map lacks it, fails the operation and gives null. */
  #addressOf(op: Op, told: Address, node: NodeLane): Address | null {
    const { natMap, domain } = this.#lane.config;
    if (told.host === "") return { host: node.address.host, port: told.port };
    try {
      return mapAddress(told, natMap, domain);
    } catch (error) {
      const { code, message } = error as KeylaneError;
      this.#lane.tell(error as KeylaneError);
      const context = { ...this.#lane.contextOf(op, node), outcome: "rejected", cause: error } as const;
      this.#lane.failed(op, new KeylaneError(code, `${op.command}: ${message}`, context));
      return null;
    }
  }
}

/** Keeps the first refusal inside a transaction; EXEC's reply acts upon it. */
function noteRefusal(stand: Op, message: string): void {
  const block = stand.block!;
  block.refusal ??= message;
  if ((stand.flags & OP_MULTI) !== 0) block.broken = true;
}
