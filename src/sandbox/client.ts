/**
 * A client over a bare socket, for setting servers up and looking at them from outside. It shares nothing with the lanes, so a
 * test may use it to check what a lane did. The invariant: replies settle in the order of the commands.
 */
import { connect as connectTcp, type Socket } from "node:net";
import { connect as connectTls, type ConnectionOptions } from "node:tls";
import { KeylaneError } from "../errors.js";
import { encodeCommand, formatAddress, type Reply, ReplyError, ReplyParser, toText } from "./resp.js";

/** Where and how to connect. */
export interface RespOptions {
  readonly host: string;
  readonly port: number;
  readonly username?: string | undefined;
  readonly password?: string | undefined;
  readonly tls?: ConnectionOptions | undefined;
  /** Deadline of the connect and of each command, in milliseconds (default 5,000). */
  readonly timeoutMs?: number | undefined;
}

interface Waiter {
  readonly name: string;
  readonly resolve: (reply: Reply) => void;
  readonly reject: (error: Error) => void;
  readonly timer: NodeJS.Timeout;
}

/** One connection. Commands may be issued without awaiting; they are pipelined. */
export class RespClient {
  readonly #socket: Socket;
  readonly #options: RespOptions;
  readonly #parser = new ReplyParser();
  readonly #waiting: Waiter[] = [];
  #failure: Error | undefined;
  /** Called with each RESP3 push message. */
  onPush: ((message: Reply[]) => void) | undefined;

  private constructor(socket: Socket, options: RespOptions) {
    this.#socket = socket;
    this.#options = options;
    socket.setNoDelay(true);
    socket.on("data", (chunk: Buffer) => this.#read(chunk));
    socket.on("error", (error) => this.#fail(error));
    socket.on("close", () => this.#fail(new Error("the connection was closed")));
  }

  /**
   * Connects, and authenticates when a password is given.
   * @throws KeylaneError `KEYLANE_ERR_CONNECT` when the server can't be reached in time.
   */
  static async connect(options: RespOptions): Promise<RespClient> {
    const socket = await openSocket(options);
    const client = new RespClient(socket, options);
    if (options.password !== undefined) {
      await client.command("AUTH", ...(options.username === undefined ? [] : [options.username]), options.password);
    }
    return client;
  }

  /** True until the connection breaks or is closed. */
  get open(): boolean {
    return this.#failure === undefined;
  }

  /**
   * Sends one command and gives its reply.
   * @throws ReplyError for an error reply; KeylaneError `KEYLANE_ERR_CONNECTION_LOST` or `KEYLANE_ERR_TIMEOUT`.
   */
  command(...args: readonly (string | number | bigint | Uint8Array)[]): Promise<Reply> {
    const name = String(args[0]).toUpperCase();
    if (this.#failure !== undefined) return Promise.reject(this.#lost(name, this.#failure));
    return new Promise<Reply>((resolve, reject) => {
      const timeoutMs = this.#options.timeoutMs ?? 5000;
      const late = new Error(`${name} was not answered within ${timeoutMs} ms`);
      const timer = setTimeout(() => this.#fail(late, "KEYLANE_ERR_TIMEOUT"), timeoutMs);
      this.#waiting.push({ name, resolve, reject, timer });
      this.#socket.write(encodeCommand(args));
    });
  }

  /** As `command`, with bulk strings decoded as UTF-8. */
  async text(...args: readonly (string | number | bigint | Uint8Array)[]): Promise<Reply> {
    return toText(await this.command(...args));
  }

  /** Writes bytes as they are; any reply to them goes to the oldest waiting command or is dropped. */
  write(bytes: Uint8Array | string): void {
    this.#socket.write(bytes);
  }

  /** Closes the connection; waiting commands fail. */
  close(): void {
    this.#fail(new Error("the client was closed"));
  }

  /** Keeps the process alive while this client is idle, or not. */
  unref(): this {
    this.#socket.unref();
    return this;
  }

  #read(chunk: Buffer): void {
    this.#parser.feed(chunk);
    try {
      for (let reply = this.#parser.next(); reply !== undefined; reply = this.#parser.next()) this.#settle(reply);
    } catch (error) {
      this.#fail(error as Error, "KEYLANE_ERR_PROTOCOL");
    }
  }

  #settle(reply: Reply): void {
    if (this.#parser.wasPush) {
      this.onPush?.(reply as Reply[]);
      return;
    }
    const waiter = this.#waiting.shift();
    if (waiter === undefined) return;
    clearTimeout(waiter.timer);
    if (reply instanceof ReplyError) waiter.reject(reply);
    else waiter.resolve(reply);
  }

  #fail(
    cause: Error,
    code:
      | "KEYLANE_ERR_CONNECTION_LOST"
      | "KEYLANE_ERR_TIMEOUT"
      | "KEYLANE_ERR_PROTOCOL" = "KEYLANE_ERR_CONNECTION_LOST",
  ): void {
    this.#failure ??= cause;
    this.#socket.destroy();
    for (const waiter of this.#waiting.splice(0)) {
      clearTimeout(waiter.timer);
      waiter.reject(this.#lost(waiter.name, cause, code));
    }
  }

  #lost(
    command: string,
    cause: Error,
    code:
      | "KEYLANE_ERR_CONNECTION_LOST"
      | "KEYLANE_ERR_TIMEOUT"
      | "KEYLANE_ERR_PROTOCOL" = "KEYLANE_ERR_CONNECTION_LOST",
  ): KeylaneError {
    const node = formatAddress(this.#options.host, this.#options.port);
    return new KeylaneError(code, `${node}: ${cause.message}`, { command, node, cause });
  }
}

function openSocket(options: RespOptions): Promise<Socket> {
  const { host, port, tls, timeoutMs = 5000 } = options;
  return new Promise<Socket>((resolve, reject) => {
    const socket = tls === undefined ? connectTcp({ host, port }) : connectTls({ host, port, ...tls });
    const node = formatAddress(host, port);
    const fail = (cause: Error): void => {
      clearTimeout(timer);
      socket.destroy();
      reject(new KeylaneError("KEYLANE_ERR_CONNECT", `${node}: ${cause.message}`, { node, cause }));
    };
    const timer = setTimeout(() => fail(new Error(`no connection within ${timeoutMs} ms`)), timeoutMs);
    socket.once("error", fail);
    socket.once(tls === undefined ? "connect" : "secureConnect", () => {
      clearTimeout(timer);
      socket.off("error", fail);
      resolve(socket);
    });
  });
}
