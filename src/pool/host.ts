/**
 * The pool: its seats, and the callers that use them — the thread that opened it, and any that attached through it. The
 * invariant: every caller has a link to every open worker, gets a new one when a worker is replaced, and hears of the end.
 */
import { MessageChannel } from "node:worker_threads";
import type { MessagePort } from "node:worker_threads";
import { connectChannel } from "../diagnostics.js";
import { KeylaneError } from "../errors.js";
import type { LaneListener } from "../lane/contract.js";
import type { PoolHandle } from "../shared/handle.js";
import type { PoolClient } from "./client.js";
import { processMs } from "./protocol.js";
import { Seat } from "./seat.js";
import type { SeatOwner } from "./seat.js";
import type { Notice, WorkerJob } from "./worker.js";

/** What is told by several workers within so long, in milliseconds, is told once. */
const SAME_MS = 1000;

/** Who hears of workers. */
export interface PoolListener extends LaneListener {
  untracked(domain: string, reason: string): void;
  reached(domain: number, node: number): void;
  workerExit(worker: number, reason: string): void;
}

/** What the pool tells a caller in another thread. */
export type Delivery =
  | { readonly worker: number; readonly port: MessagePort }
  | { readonly worker: number; readonly lost: string };

export class PoolHost implements SeatOwner {
  readonly program: string;
  readonly #job: Omit<WorkerJob, "control" | "worker">;
  readonly #client: PoolClient;
  readonly #listener: PoolListener;
  readonly #seats: readonly Seat[];
  /** Ports of all handles given away; and of these, where a thread has joined. */
  readonly #invited = new Set<MessagePort>();
  readonly #guests = new Set<MessagePort>();
  /** `node domain` → workers connected to it. A domain's name may hold spaces. */
  readonly #connected = new Map<string, Set<number>>();
  readonly #versions = new Map<string, number>();
  readonly #told = new Map<string, number>();
  #opening: { resolve(): void; reject(error: KeylaneError): void } | null = null;
  #opened = new Set<number>();
  #ended = false;

  /** `program` is the file that workers load; `client` the opening thread's own use of the pool. */
  constructor(program: string, job: Omit<WorkerJob, "control" | "worker">, client: PoolClient, listener: PoolListener) {
    this.program = program;
    this.#job = job;
    this.#client = client;
    this.#listener = listener;
    this.#seats = client.links.map((_, index) => new Seat(index, this));
  }

  /** Starts all workers; resolves when all have opened their lanes. Rejects with the first failure. */
  open(): Promise<void> {
    const opened = new Promise<void>((resolve, reject) => {
      this.#opening = { resolve, reject };
    });
    for (const seat of this.#seats) seat.start();
    return opened;
  }

  /** What one more thread needs to use the pool. @throws KeylaneError `KEYLANE_ERR_CLOSED` when it has ended */
  invite(): PoolHandle {
    if (this.#ended) throw new KeylaneError("KEYLANE_ERR_CLOSED", "keylane is closed");
    const { port1, port2 } = new MessageChannel();
    this.#invited.add(port1);
    port1.on("close", () => {
      this.#invited.delete(port1);
      this.#guests.delete(port1);
    });
    port1.once("message", () => {
      this.#guests.add(port1);
      for (const seat of this.#seats) this.#deliver(port1, seat);
    });
    port1.unref();
    return { port: port2, workers: this.#seats.length, board: this.#job.board };
  }

  /** Has the workers settle everything and end; by force after `withinMs`. */
  async stop(withinMs: number): Promise<void> {
    this.#end();
    await Promise.all(this.#seats.map((seat) => seat.stop(withinMs)));
    this.#dismiss();
  }

  /** Ends all workers at once. */
  destroy(): void {
    this.#end();
    for (const seat of this.#seats) seat.destroy();
    this.#dismiss();
  }

  // ── what seats tell ──────────────────────────────────────────────────────────────────────────────────────────────

  job(worker: number): Omit<WorkerJob, "control"> {
    return { ...this.#job, worker };
  }

  opened(seat: Seat): void {
    const { port1, port2 } = new MessageChannel();
    seat.serve(port2);
    this.#client.links[seat.index]!.open(port1, processMs(), Math.floor(performance.now()));
    for (const guest of this.#guests) this.#deliver(guest, seat);
    this.#opened.add(seat.index);
    if (this.#opened.size === this.#seats.length) {
      this.#opening?.resolve();
      this.#opening = null;
    }
  }

  emptied(seat: Seat, error: KeylaneError): void {
    const { index } = seat;
    const reason = error.message;
    const was = this.#opened.delete(index);
    this.#client.links[index]!.lose(reason);
    this.#client.board.vacate(index);
    for (const guest of this.#guests) guest.postMessage({ worker: index, lost: reason } satisfies Delivery);
    for (const [place, workers] of this.#connected) {
      const space = place.indexOf(" ");
      if (workers.has(index)) this.#disconnected(index, place.slice(space + 1), place.slice(0, space), reason);
    }
    if (this.#opening !== null) {
      this.#opening.reject(error);
      this.#opening = null;
    } else if (this.#ended) return;
    else if (was) this.#listener.workerExit(index, reason);
    else this.#listener.error(error);
  }

  heard({ index }: Seat, notice: Notice): void {
    const listener = this.#listener;
    switch (notice.tell) {
      case "up":
        this.#isConnected(index, notice.domain, notice.node);
        break;
      case "down":
        this.#disconnected(index, notice.domain, notice.node, notice.reason);
        break;
      case "topology": {
        const { domain, version } = notice;
        if (version <= (this.#versions.get(domain) ?? 0)) return;
        this.#versions.set(domain, version);
        listener.topology(domain, version);
        break;
      }
      case "degraded":
        if (this.#isNew(`${notice.domain} ${notice.reason}`)) listener.degraded(notice.domain, notice.reason);
        break;
      case "untracked":
        if (this.#isNew(`${notice.domain} ${notice.reason}`)) listener.untracked(notice.domain, notice.reason);
        break;
      case "reached":
        listener.reached(notice.domain, notice.node);
        break;
      case "error": {
        const error = KeylaneError.from(notice.error);
        if (this.#isNew(`${error.code} ${error.message}`)) listener.error(error);
        break;
      }
      default:
    }
  }

  // ── own ──────────────────────────────────────────────────────────────────────────────────────────────────────────

  #deliver(guest: MessagePort, seat: Seat): void {
    const { port1, port2 } = new MessageChannel();
    if (seat.serve(port2)) guest.postMessage({ worker: seat.index, port: port1 } satisfies Delivery, [port1]);
    else port1.close();
  }

  #end(): void {
    this.#ended = true;
    for (const link of this.#client.links) link.closing = true;
  }

  #dismiss(): void {
    for (const port of this.#invited) port.close();
  }

  /** A node is up for the process when the first worker has a connection, and down when the last has lost its own. */
  #isConnected(worker: number, domain: string, node: string): void {
    const place = `${node} ${domain}`;
    const workers = this.#connected.get(place) ?? new Set();
    this.#connected.set(place, workers.add(worker));
    const state = "ready";
    if (connectChannel.hasSubscribers) connectChannel.publish({ domain, node, state, reason: null });
    if (workers.size === 1) this.#listener.nodeUp(domain, node);
  }

  #disconnected(worker: number, domain: string, node: string, reason: string): void {
    const place = `${node} ${domain}`;
    const workers = this.#connected.get(place);
    if (connectChannel.hasSubscribers) connectChannel.publish({ domain, node, state: "down", reason });
    if (workers !== undefined && !workers.delete(worker)) return;
    if ((workers?.size ?? 0) > 0) return;
    this.#connected.delete(place);
    if (!this.#ended) this.#listener.nodeDown(domain, node, reason);
  }

  #isNew(what: string): boolean {
    const now = performance.now();
    for (const [old, at] of this.#told) if (now - at > SAME_MS) this.#told.delete(old);
    if (this.#told.has(what)) return false;
    this.#told.set(what, now);
    return true;
  }
}
