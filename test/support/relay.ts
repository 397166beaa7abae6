/**
 * PX: a TCP relay that stands between a client and a server and misbehaves on demand, each direction by itself.
 *
 * ```text
 *           relay.up   (delayMs, drop, stall, tap)
 * client  ───────────────────────────────────────▶  server
 *         ◀───────────────────────────────────────
 *           relay.down (delayMs, drop, stall, tap)
 * ```
 *
 * Bytes keep their order whatever happens to the delay. All settings take effect at once, on open connections too.
 */
import { EventEmitter, once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { splitAddress } from "./raw.js";

/** What happens to the bytes of one direction. */
export class Direction {
  /** Each chunk arrives this many milliseconds later. */
  delayMs = 0;
  /** Swallow bytes: they are gone for good. */
  drop = false;
  /** Bytes that went through. */
  bytes = 0;
  /** Sees each chunk before it goes on and may change it; an empty result swallows it. */
  tap: ((chunk: Buffer) => Buffer) | undefined;
  #budget = Infinity;
  #stalled = false;
  readonly #sources = new Set<Socket>();

  /** Stop reading from the sender, so that its writes pile up; false goes on. */
  get stall(): boolean {
    return this.#stalled;
  }
  set stall(value: boolean) {
    this.#stalled = value;
    for (const source of this.#sources) {
      if (value) source.pause();
      else source.resume();
    }
  }

  /** Lets so many more bytes through, then cuts the connection on which the last one came. */
  cutAfter(bytes: number): void {
    this.#budget = bytes;
  }

  /** @internal Carries the bytes of one connection. */
  join(from: Socket, to: Socket, cut: () => void): void {
    const queue = new DelayLine();
    this.#sources.add(from);
    from.once("close", () => this.#sources.delete(from));
    if (this.#stalled) from.pause();
    from.on("end", () => {
      if (!this.drop) queue.add(this.delayMs, () => to.end());
    });
    from.on("data", (chunk: Buffer) => {
      if (this.drop) return;
      const tapped = this.tap === undefined ? chunk : this.tap(chunk);
      const allowed = tapped.subarray(0, this.#budget);
      this.#budget -= allowed.length;
      const last = this.#budget === 0;
      if (last) this.#budget = Infinity;
      queue.add(this.delayMs, () => {
        this.bytes += allowed.length;
        if (allowed.length > 0 && !to.destroyed && !to.write(allowed)) this.#holdBack(from, to);
        if (last) cut();
      });
    });
  }

  #holdBack(from: Socket, to: Socket): void {
    from.pause();
    to.once("drain", () => {
      if (!this.#stalled) from.resume();
    });
  }
}

/** Runs actions after their delays, in the order they were added even when the delay shrinks. */
class DelayLine {
  readonly #waiting: { readonly due: number; readonly action: () => void }[] = [];
  #last = 0;

  add(delayMs: number, action: () => void): void {
    const now = performance.now();
    this.#last = Math.max(this.#last, now + delayMs);
    if (this.#last <= now && this.#waiting.length === 0) {
      action();
      return;
    }
    this.#waiting.push({ due: this.#last, action });
    if (this.#waiting.length === 1) this.#arm();
  }

  #arm(): void {
    const first = this.#waiting[0];
    if (first !== undefined) setTimeout(() => this.#run(), first.due - performance.now());
  }

  #run(): void {
    const now = performance.now();
    while (this.#waiting.length > 0 && this.#waiting[0]!.due <= now + 0.5) this.#waiting.shift()!.action();
    this.#arm();
  }
}

interface Pair {
  readonly client: Socket;
  readonly server: Socket;
  /** The server's side is gone and the client is not to know. */
  orphaned: boolean;
}

/** A relay to one server. Emits `connection` for each client that comes. */
export class Relay extends EventEmitter {
  /** Client to server. */
  readonly up = new Direction();
  /** Server to client. */
  readonly down = new Direction();
  /** Clients that ever came. */
  accepted = 0;
  readonly #target: { host: string; port: number };
  readonly #server: Server;
  readonly #pairs = new Set<Pair>();
  #port = 0;
  #refuse = false;

  private constructor(target: string) {
    super();
    this.#target = splitAddress(target);
    this.#server = createServer({ allowHalfOpen: true, pauseOnConnect: true }, (client) => this.#accept(client));
  }

  /** Starts a relay to `host:port` on 127.0.0.1, on a free port unless one is given. */
  static async start(target: string, port = 0): Promise<Relay> {
    const relay = new Relay(target);
    relay.#port = port;
    await relay.#listen();
    return relay;
  }

  get port(): number {
    return this.#port;
  }

  /** Where clients connect to. */
  get address(): string {
    return `127.0.0.1:${this.#port}`;
  }

  /** Connections open now. */
  get open(): number {
    return this.#pairs.size;
  }

  /** Breaks all connections on both sides, by default with a reset; new ones are still taken. */
  cut(how: "reset" | "close" = "reset"): void {
    for (const pair of this.#pairs) this.#cutPair(pair, how);
  }

  /**
   * The server's machine is gone: the server's side of every connection is closed, the client's stays open, takes bytes and
   * never answers. New connections still reach the server unless `refuse` is called.
   */
  halfOpen(): void {
    for (const pair of this.#pairs) {
      pair.orphaned = true;
      pair.client.removeAllListeners("data").removeAllListeners("end");
      pair.client.on("data", () => undefined);
      pair.client.resume();
      pair.server.destroy();
    }
  }

  /** Takes no new connections (they are refused) until `accept`. Open ones stay. */
  async refuse(): Promise<void> {
    if (this.#refuse) return;
    this.#refuse = true;
    // close() stops listening at once; its callback would wait for the open connections.
    this.#server.close();
  }

  /** Takes connections again, on the same port. */
  async accept(): Promise<void> {
    if (!this.#refuse) return;
    this.#refuse = false;
    await this.#listen();
  }

  /** Swallows everything in both directions, new connections included, until `heal`. */
  partition(): void {
    this.up.drop = true;
    this.down.drop = true;
  }

  /** No delay, drop or stall any more; what was swallowed stays lost. */
  heal(): void {
    for (const direction of [this.up, this.down]) {
      direction.drop = false;
      direction.delayMs = 0;
      direction.stall = false;
      direction.tap = undefined;
    }
  }

  /** Ends the relay and all its connections. */
  async stop(): Promise<void> {
    this.cut("close");
    if (!this.#server.listening) return;
    await new Promise<void>((resolve) => {
      this.#server.close(() => resolve());
    });
  }

  async #listen(): Promise<void> {
    this.#server.listen({ host: "127.0.0.1", port: this.#port });
    await once(this.#server, "listening");
    this.#port = (this.#server.address() as AddressInfo).port;
  }

  #accept(client: Socket): void {
    this.accepted++;
    const server = connect({ ...this.#target, allowHalfOpen: true });
    const pair: Pair = { client, server, orphaned: false };
    this.#pairs.add(pair);
    for (const [socket, other] of [
      [client, server],
      [server, client],
    ] as const) {
      socket.setNoDelay(true);
      socket.on("error", () => this.#cutPair(pair, "reset"));
      socket.on("close", () => {
        if (socket === server && pair.orphaned) return;
        other.destroy();
        this.#pairs.delete(pair);
      });
    }
    const cut = (): void => this.#cutPair(pair, "reset");
    this.up.join(client, server, cut);
    this.down.join(server, client, cut);
    if (!this.up.stall) client.resume();
    this.emit("connection", client);
  }

  #cutPair({ client, server }: Pair, how: "reset" | "close"): void {
    for (const socket of [client, server]) {
      if (how === "reset" && !socket.destroyed && !socket.connecting) socket.resetAndDestroy();
      else socket.destroy();
    }
  }
}
