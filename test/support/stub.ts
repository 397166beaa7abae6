/**
 * STUB: a RESP server inside the test, for what a real server can't be made to say. It answers the handshake of a client by
 * itself (HELLO, AUTH, CLIENT, SELECT, READONLY, INFO, CONFIG GET, COMMAND, PING, CLUSTER …) as one cluster node that owns all
 * slots, until a script says otherwise; any other command is unknown to it until it is given an answer.
 *
 * ```ts
 * const stub = await Stub.start();
 * stub.answer("GET", ({ args, calls }) => (calls === 1 ? failure("MOVED 42 node-a.example:6379") : args[1]));
 * stub.script("INCR", failure("TRYAGAIN …"), 1);
 * ```
 */
import { EventEmitter, once } from "node:events";
import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import { formatAddress, ReplyParser } from "keylane/sandbox";
import {
  encodeReply,
  failure,
  fields,
  OK,
  shardRows,
  simple,
  slotRows,
  stubId,
  type StubRange,
  type StubReply,
} from "./stub-reply.js";

export { failure, fields, OK, raw, simple, type StubNode, type StubRange, type StubReply } from "./stub-reply.js";

/** One connection to the stub. */
export class StubConnection {
  /** RESP version that HELLO chose. */
  protocol: 2 | 3 = 2;
  authenticated = false;
  /** Set by ASKING, for the next command only. */
  asking = false;

  constructor(
    readonly id: number,
    readonly socket: Socket,
  ) {}

  /** Sends something that nobody asked for. */
  push(reply: StubReply): void {
    this.socket.write(encodeReply(reply, this.protocol));
  }
}

/** One command as it arrived. */
export interface StubCall {
  /** Upper case; for container commands with the subcommand: `"CLUSTER SLOTS"`. */
  readonly name: string;
  readonly args: readonly Buffer[];
  /** How often this name was called, this call included. */
  readonly calls: number;
  readonly connection: StubConnection;
  /** True when ASKING came right before it. */
  readonly asking: boolean;
}

/** Answers a call. While its promise is pending, later commands of the connection wait. */
export type StubHandler = (call: StubCall) => StubReply | Promise<StubReply>;

/** Options of `Stub.start`. */
export interface StubOptions {
  /** Demand AUTH, or HELLO with AUTH, with this password. */
  readonly password?: string;
  /** Whether it knows HELLO (default true). */
  readonly resp3?: boolean;
  /** Whether it knows CLUSTER SHARDS (default true). */
  readonly shards?: boolean;
  /** Whether it is a cluster node (default true). */
  readonly cluster?: boolean;
  /** Address to listen on (default 127.0.0.1). */
  readonly host?: string;
  /** Version it claims (default 7.0.15). */
  readonly version?: string;
}

const CONTAINERS = /^(ACL|CLIENT|CLUSTER|COMMAND|CONFIG|FUNCTION|LATENCY|MEMORY|OBJECT|SCRIPT)$/;
const HANDSHAKE = /^(ASKING|AUTH|CLIENT|CLUSTER|COMMAND|CONFIG GET|HELLO|INFO|PING|QUIT|READONLY|READWRITE|SELECT)\b/;
const WRONGPASS = failure("WRONGPASS invalid username-password pair or user is disabled.");

/** A scripted server. Emits `call` with each `StubCall` and `connection` with each `StubConnection`. */
export class Stub extends EventEmitter {
  /** What CLUSTER SLOTS and SHARDS say; by default this stub has all slots. */
  ranges: StubRange[] = [];
  /** Every command so far, in order, handshakes included. */
  readonly log: StubCall[] = [];
  readonly connections = new Set<StubConnection>();
  readonly #handlers = new Map<string, StubHandler>();
  readonly #counts = new Map<string, number>();
  readonly #server: Server;
  readonly #options: StubOptions;
  #port = 0;
  #nextId = 1;

  private constructor(options: StubOptions) {
    super();
    this.#options = options;
    this.#server = createServer((socket) => this.#accept(socket));
  }

  /** Starts a stub on a free port. */
  static async start(options: StubOptions = {}): Promise<Stub> {
    const stub = new Stub(options);
    stub.#server.listen({ host: stub.host, port: 0 });
    await once(stub.#server, "listening");
    stub.#port = (stub.#server.address() as AddressInfo).port;
    stub.ranges = [{ from: 0, to: 16_383, nodes: [{ host: stub.host, port: stub.#port, id: stub.id }] }];
    return stub;
  }

  /** Starts `count` stubs that share the slots evenly and all know it. */
  static async cluster(count: number, options: StubOptions = {}): Promise<Stub[]> {
    const stubs = await Promise.all(Array.from({ length: count }, () => Stub.start(options)));
    const ranges = stubs.map((stub, index) => ({
      from: Math.floor((index * 16_384) / count),
      to: Math.floor(((index + 1) * 16_384) / count) - 1,
      nodes: [{ host: stub.host, port: stub.port, id: stub.id }],
    }));
    for (const stub of stubs) stub.ranges = ranges;
    return stubs;
  }

  get host(): string {
    return this.#options.host ?? "127.0.0.1";
  }

  get port(): number {
    return this.#port;
  }

  get address(): string {
    return formatAddress(this.host, this.#port);
  }

  /** Its cluster node id. */
  get id(): string {
    return stubId(this.address);
  }

  /** Answers a command (`"GET"`, `"CLUSTER SLOTS"`, or `"*"` for all that are no handshake and have no answer yet). */
  answer(name: string, handler: StubHandler): this {
    this.#handlers.set(name.toUpperCase(), handler);
    return this;
  }

  /** Answers a command with these replies, one a call; the last one again and again. */
  script(name: string, ...replies: StubReply[]): this {
    let next = 0;
    return this.answer(name, () => replies[Math.min(next++, replies.length - 1)]);
  }

  /** Calls of one command so far. */
  calls(name: string): StubCall[] {
    return this.log.filter((call) => call.name === name.toUpperCase());
  }

  /** Breaks all connections with a reset. */
  disconnect(): void {
    for (const { socket } of this.connections) socket.resetAndDestroy();
  }

  /** Ends the stub. */
  async stop(): Promise<void> {
    for (const { socket } of this.connections) socket.destroy();
    await new Promise<void>((resolve) => {
      this.#server.close(() => resolve());
    });
  }

  #accept(socket: Socket): void {
    const connection = new StubConnection(this.#nextId++, socket);
    const parser = new ReplyParser();
    let turn: Promise<void> = Promise.resolve();
    this.connections.add(connection);
    socket.setNoDelay(true);
    socket.on("error", () => undefined);
    socket.on("close", () => this.connections.delete(connection));
    socket.on("data", (chunk: Buffer) => {
      parser.feed(chunk);
      for (let args = parser.next(); args !== undefined; args = parser.next()) {
        const command = args as Buffer[];
        turn = turn.then(() => this.#answer(connection, command));
      }
    });
    this.emit("connection", connection);
  }

  async #answer(connection: StubConnection, args: readonly Buffer[]): Promise<void> {
    const word = args[0]!.toString().toUpperCase();
    const name = CONTAINERS.test(word) && args.length > 1 ? `${word} ${args[1]!.toString().toUpperCase()}` : word;
    const calls = (this.#counts.get(name) ?? 0) + 1;
    this.#counts.set(name, calls);
    const call: StubCall = { name, args, calls, connection, asking: connection.asking };
    connection.asking = false;
    this.log.push(call);
    this.emit("call", call);
    const handler = this.#handlers.get(name) ?? (HANDSHAKE.test(name) ? undefined : this.#handlers.get("*"));
    const reply = handler === undefined ? this.#usual(call) : await handler(call);
    if (reply !== undefined && !connection.socket.destroyed) connection.push(reply);
  }

  #usual(call: StubCall): StubReply {
    const { name, connection } = call;
    const { password, cluster = true, shards = true } = this.#options;
    if (name === "AUTH") return this.#authenticate(connection, call.args.at(-1)) ? OK : WRONGPASS;
    if (name === "HELLO") return this.#hello(call);
    if (password !== undefined && !connection.authenticated) return failure("NOAUTH Authentication required.");
    if (name.startsWith("CLUSTER ") && !cluster) return failure("ERR This instance has cluster support disabled");
    switch (name) {
      case "ASKING":
        connection.asking = true;
        return OK;
      case "PING":
        return call.args[1] ?? simple("PONG");
      case "INFO":
        return this.#info();
      case "CLIENT ID":
        return connection.id;
      case "CONFIG GET":
      case "COMMAND":
      case "COMMAND INFO":
        return [];
      case "CLUSTER MYID":
        return this.id;
      case "CLUSTER INFO":
        return "cluster_state:ok\r\ncluster_slots_assigned:16384\r\n";
      case "CLUSTER SLOTS":
        return slotRows(this.ranges);
      case "CLUSTER SHARDS":
        return shards ? shardRows(this.ranges) : failure("ERR unknown subcommand 'SHARDS'. Try CLUSTER HELP.");
      default:
        return HANDSHAKE.test(name) ? OK : failure(`ERR unknown command '${call.args[0]!.toString()}'`);
    }
  }

  #authenticate(connection: StubConnection, password: Buffer | undefined): boolean {
    connection.authenticated = password?.toString() === this.#options.password;
    return connection.authenticated;
  }

  #hello({ args, connection }: StubCall): StubReply {
    const { password, resp3 = true, cluster = true, version = "7.0.15" } = this.#options;
    if (!resp3) return failure("ERR unknown command 'HELLO'");
    const auth = args.findIndex((arg) => arg.toString().toUpperCase() === "AUTH");
    if (auth > 0 && !this.#authenticate(connection, args[auth + 2])) return WRONGPASS;
    if (password !== undefined && !connection.authenticated) {
      return failure("NOAUTH HELLO must be called with the client already authenticated");
    }
    connection.protocol = args[1]?.toString() === "3" ? 3 : 2;
    const { protocol: proto, id } = connection;
    const mode = cluster ? "cluster" : "standalone";
    return fields({ server: "redis", version, proto, id, mode, role: "master", modules: [] });
  }

  #info(): string {
    const { cluster = true, version = "7.0.15" } = this.#options;
    const mode = cluster ? "cluster" : "standalone";
    const lines = [
      `redis_version:${version}`,
      `redis_mode:${mode}`,
      "loading:0",
      "role:master",
      `cluster_enabled:${Number(cluster)}`,
    ];
    return `# Server\r\n${lines.join("\r\n")}\r\n`;
  }
}
