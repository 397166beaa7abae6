/**
 * Where the demo's ad requests come from: an endless Zipf stream, or a trace played once from its first request to its last.
 * The invariant: `users` holds every user that the stream can name before the first request is made, and a stream opened
 * again gives the same users in the same order.
 */
import { Random } from "./random.js";
import { readTrace } from "./trace.js";
import { UserTable } from "./users.js";
import { Zipf } from "./zipf.js";

/** A sequence of users, read by many at once. */
export interface UserStream {
  /** The next user, or -1 when `more` has to be asked. */
  next(): number;
  /** Waits for more users; false at the end of the stream. */
  more(): Promise<boolean>;
  close(): Promise<void>;
}

/** Traffic of one run. */
export interface Traffic {
  readonly kind: "zipf" | "trace";
  /** For people: what is played. */
  readonly title: string;
  readonly users: UserTable;
  /** Requests there are; `Infinity` for an endless stream. */
  readonly requests: number;
  open(): UserStream;
}

const ZIPF_USERS = 100_000;
/** The skew that YCSB made customary. */
const ZIPF_EXPONENT = 0.99;
const SEED = 1;

/** `count` users by popularity: user 1 is the most active one. */
export function zipfTraffic(count = ZIPF_USERS): Traffic {
  const users = new UserTable();
  for (let user = 1; user <= count; user += 1) users.add(user);
  return {
    kind: "zipf",
    title: `a Zipf stream (s = ${ZIPF_EXPONENT}) over ${count.toLocaleString("en-US")} users`,
    users,
    requests: Infinity,
    open() {
      const zipf = new Zipf(new Random(SEED), count, ZIPF_EXPONENT);
      return { next: () => zipf.next(), more: () => Promise.resolve(true), close: () => Promise.resolve() };
    },
  };
}

/** Reads a trace once, so that a broken one is told before anything starts. Throws as `readTrace`. */
export async function traceTraffic(file: string): Promise<Traffic> {
  const users = new UserTable();
  let requests = 0;
  for await (const chunk of readTrace(file)) {
    requests += chunk.length;
    for (const user of chunk) users.add(user);
  }
  const [many, distinct] = [requests, users.size].map((n) => n.toLocaleString("en-US"));
  return {
    kind: "trace",
    title: `${file}, ${many} requests of ${distinct} users`,
    users,
    requests,
    open: () => new TraceStream(file),
  };
}

class TraceStream implements UserStream {
  readonly #chunks: AsyncGenerator<Uint32Array, void, void>;
  #chunk = new Uint32Array(0);
  #at = 0;
  #pulling: Promise<boolean> | null = null;

  constructor(file: string) {
    this.#chunks = readTrace(file);
  }

  next(): number {
    return this.#at < this.#chunk.length ? this.#chunk[this.#at++]! : -1;
  }

  more(): Promise<boolean> {
    if (this.#at < this.#chunk.length) return Promise.resolve(true);
    this.#pulling ??= this.#pull();
    return this.#pulling;
  }

  async close(): Promise<void> {
    await this.#chunks.return();
  }

  async #pull(): Promise<boolean> {
    const { value } = await this.#chunks.next();
    this.#pulling = null;
    if (value === undefined) return false;
    this.#chunk = new Uint32Array(value);
    this.#at = 0;
    return true;
  }
}
