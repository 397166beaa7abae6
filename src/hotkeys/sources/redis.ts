/**
 * Hot keys in Redis: a hash with a field per holder is the truth, a channel of the same name carries each change as it is
 * made. The subscriber is dialled anew, on any node of a cluster, whenever it is lost, and everything is looked up once it
 * listens again, so a lost message is missed for no longer than that, and for a beat at most.
 *
 * ```text
 * HASH    <key>   { <holder>: <document>, … }
 * PUBLISH <key>   "<holder> <document>"   or "<holder> " when it is gone
 * ```
 */
import { readFileSync } from "node:fs";
import type { RawClient, RawConfig } from "../../lane/raw.js";
import { openRaw } from "../../lane/raw.js";
import type { SourceOf } from "../../options/hot-key-source.js";
import { untilAborted } from "./abort.js";
import type { Carrier, Feed } from "./carrier.js";
import { MAX_DOCUMENT_BYTES } from "./document.js";

const read = (name: string): string => readFileSync(new URL(name, import.meta.url), "utf8");
const TELL = read("tell.lua");
const WITHDRAW = read("withdraw.lua");
/** The hash goes when nothing has been written for so many beats. */
const LIFE_BEATS = 12;
const DEFAULT_PORT = 6379;

/** A client of one server, which subscribes. */
type Subscriber = Exclude<RawClient, { nodes: unknown }>;

export class RedisCarrier implements Carrier {
  readonly name: string;
  readonly maxBytes = MAX_DOCUMENT_BYTES;
  readonly pollBeats = 1;
  readonly #holder: string;
  readonly #config: RawConfig;
  readonly #key: string;
  readonly #timeoutMs: number;
  readonly #lifeMs: number;
  #client: RawClient | undefined;
  /** Why there is no connection, as the client last said. */
  #reason = "";

  /** `lane`: the servers of the domain that is named; null where the options hold an address. */
  constructor(holder: string, options: SourceOf<"redis">, lane: RawConfig | null) {
    this.#holder = holder;
    this.#key = options.key;
    this.#timeoutMs = options.timeoutMs;
    this.#lifeMs = LIFE_BEATS * options.beatMs;
    this.#config = lane ?? configOf(options);
    const { host, port } = this.#config.seeds[0]!;
    this.name = `redis ${lane === null ? `${host}:${port}` : lane.domain} ${options.key}`;
  }

  secrets(): readonly string[] {
    const { password = "" } = this.#config.credentials;
    return [password, this.#config.sentinels?.password ?? ""];
  }

  async list(signal: AbortSignal): Promise<ReadonlyMap<string, string>> {
    const client = await this.#ready(signal);
    return new Map(Object.entries(await this.#settled(client.hgetall(this.#key))));
  }

  async put(text: string, signal: AbortSignal): Promise<void> {
    const client = await this.#ready(signal);
    const message = `${this.#holder} ${text}`;
    await this.#settled(client.eval(TELL, 1, this.#key, this.#holder, text, this.#lifeMs, message));
  }

  async remove(signal: AbortSignal): Promise<void> {
    const client = await this.#ready(signal);
    await this.#settled(client.eval(WITHDRAW, 1, this.#key, this.#holder, `${this.#holder} `));
  }

  async sweep(holder: string, text: string, signal: AbortSignal): Promise<void> {
    const client = await this.#ready(signal);
    await this.#settled(client.eval(WITHDRAW, 1, this.#key, holder, `${holder} `, text));
  }

  async listen(feed: Feed, signal: AbortSignal): Promise<void> {
    const client = await this.#ready(signal);
    const subscriber = subscriberOf(client);
    const { aborted, forget } = untilAborted(signal);
    const lost = new Promise<void>((resolve) => subscriber.once("end", () => resolve()));
    let reason = "the subscriber lost its connection";
    subscriber.on("error", (error: Error) => {
      reason = error.message;
    });
    subscriber.on("message", (_channel: string, message: string) => {
      const space = message.indexOf(" ");
      const holder = message.slice(0, Math.max(0, space));
      const text = message.slice(space + 1);
      if (holder === "") feed.look();
      else if (text === "") feed.remove(holder);
      else feed.put(holder, text);
    });
    try {
      await subscriber.connect();
      await subscriber.subscribe(this.#key);
      feed.up();
      await Promise.race([lost, aborted]);
    } finally {
      forget();
      subscriber.disconnect();
    }
    if (!signal.aborted) throw new Error(reason);
  }

  close(): void {
    this.#client?.disconnect();
  }

  /** The client once it is connected. @throws Error when that takes longer than the timeout */
  #ready(signal: AbortSignal): Promise<RawClient> {
    const client = (this.#client ??= this.#open());
    if (client.status === "ready") return Promise.resolve(client);
    const { aborted, forget } = untilAborted(signal);
    return new Promise((resolve, reject) => {
      const settle = (error: Error | null): void => {
        clearTimeout(timer);
        client.off("ready", ready);
        forget();
        if (error === null) resolve(client);
        else reject(error);
      };
      const ready = (): void => settle(null);
      const late = (): void => {
        const why = this.#reason === "" ? "" : `: ${this.#reason}`;
        settle(new Error(`no connection within ${this.#timeoutMs} ms${why}`));
      };
      const timer = setTimeout(late, this.#timeoutMs);
      client.once("ready", ready);
      void aborted.then(() => settle(new Error("stopped")));
    });
  }

  #open(): RawClient {
    const client = openRaw(this.#config, this.#timeoutMs);
    client.on("error", (error: Error) => {
      this.#reason = messageOf(error);
    });
    client.on("ready", () => {
      this.#reason = "";
    });
    return client;
  }

  /** A command's result, in time; its error with the message that says most. */
  async #settled<T>(command: Promise<T>): Promise<T> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new Error(`no answer within ${this.#timeoutMs} ms`)), this.#timeoutMs);
    });
    const outcome = await Promise.race([command, late]).catch((error: unknown) => new Error(messageOf(error)));
    clearTimeout(timer);
    if (outcome instanceof Error) throw outcome;
    return outcome;
  }
}

/** A connection of its own to the server, or to some node of the cluster; it does not come back by itself. */
function subscriberOf(client: RawClient): Subscriber {
  const options = { lazyConnect: true, retryStrategy: null, enableOfflineQueue: true, autoResubscribe: false };
  if (!("nodes" in client)) return client.duplicate(options);
  const nodes = client.nodes("all");
  const node = nodes[Math.floor(Math.random() * nodes.length)];
  if (node === undefined) throw new Error("no node of the cluster is known");
  return node.duplicate(options);
}

function configOf({ url = "", cluster, username, password, tls, timeoutMs }: SourceOf<"redis">): RawConfig {
  const given = new URL(url);
  const user = username ?? decodeURIComponent(given.username);
  const secret = password ?? decodeURIComponent(given.password);
  const host = given.hostname.replace(/^\[|\]$/g, "");
  const database = Number(given.pathname.slice(1));
  return {
    domain: "",
    mode: cluster ? "cluster" : "single",
    seeds: [{ host: host === "" ? "localhost" : host, port: given.port === "" ? DEFAULT_PORT : Number(given.port) }],
    sentinels: undefined,
    credentials: { ...(user === "" ? {} : { username: user }), ...(secret === "" ? {} : { password: secret }) },
    tls: tls ?? (given.protocol === "rediss:" ? {} : undefined),
    db: database,
    connectionName: "keylane-hotkeys",
    natMap: undefined,
    scaleReads: "master",
    connectTimeoutMs: timeoutMs,
  };
}

/** The message alone; that of a cluster's error is its last node's. */
function messageOf(error: unknown): string {
  const { message = String(error), lastNodeError } = error as Error & { lastNodeError?: Error };
  return lastNodeError?.message ?? message;
}
