/**
 * Hot keys in Nacos, by its open API v1: one configuration that maps holders to documents. It is written by comparing and
 * setting (header `casMd5`), so two processes that write at once lose nothing, and read by long polling with the MD5 of what
 * is known. What is in it and is no JSON object is never overwritten.
 *
 * ```text
 * <dataId>, <group>, <namespace>  →  {"3f0c…":{"keylane":1,…},"81aa…":{…}}
 * ```
 */
import { createHash } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { SourceOf } from "../../options/hot-key-source.js";
import type { Carrier, Feed } from "./carrier.js";
import type { Answer, Ask } from "./http.js";
import { HttpError, HttpPlace } from "./http.js";

/** One document of many in a configuration. */
const MAX_BYTES = 64 << 10;
/** How long the server may hold a poll, and how long after that an answer is awaited. */
const POLL_MS = 30_000;
const POLL_SLACK_MS = 10_000;
/** Least distance of two polls that bring something. */
const POLL_REST_MS = 50;
/** Tries of a write that comes too late, and the longest distance of the first two, which doubles up to a bound. */
const MAX_TRIES = 16;
const TRY_REST_MS = 20;
const LONGEST_TRY_REST_MS = 640;
const FORM = { "content-type": "application/x-www-form-urlencoded;charset=UTF-8" };
const CONFIGS = "/v1/cs/configs";

/** Holder → document, as JSON has it. */
type Board = Record<string, unknown>;

export class NacosCarrier implements Carrier {
  readonly name: string;
  readonly maxBytes = MAX_BYTES;
  readonly pollBeats = 2;
  readonly #options: SourceOf<"nacos">;
  readonly #holder: string;
  readonly #place: HttpPlace;
  #token: string | undefined;

  constructor(holder: string, options: SourceOf<"nacos">) {
    this.#options = options;
    this.#holder = holder;
    // Without a path of its own the server's default context path is meant.
    const bases = options.servers.map((server) =>
      new URL(server).pathname === "/" ? new URL("/nacos", server).href : server,
    );
    this.#place = new HttpPlace(bases, options.tls);
    this.name = `nacos ${this.#place.name} ${options.dataId}`;
  }

  secrets(): readonly string[] {
    return [this.#options.password ?? "", this.#token ?? ""];
  }

  async list(signal: AbortSignal): Promise<ReadonlyMap<string, string>> {
    return textsOf(boardOf(await this.#read(signal)));
  }

  async listen(feed: Feed, signal: AbortSignal): Promise<void> {
    let known = await this.#read(signal);
    feed.all(textsOf(boardOf(known)));
    // The first poll is not held, and shows that polls are answered.
    for (let first = true; ; first = false) {
      const changed = await this.#poll(known, first, signal);
      if (first) feed.up();
      if (!changed) continue;
      known = await this.#read(signal);
      feed.all(textsOf(boardOf(known)));
      await sleep(POLL_REST_MS, undefined, { signal, ref: false });
    }
  }

  put(text: string, signal: AbortSignal): Promise<void> {
    const document: unknown = JSON.parse(text);
    return this.#change(signal, (board) => {
      board[this.#holder] = document;
      return true;
    });
  }

  remove(signal: AbortSignal): Promise<void> {
    return this.#change(signal, (board) => Object.hasOwn(board, this.#holder) && delete board[this.#holder]);
  }

  sweep(holder: string, text: string, signal: AbortSignal): Promise<void> {
    return this.#change(signal, (board) => JSON.stringify(board[holder]) === text && delete board[holder]);
  }

  close(): void {
    this.#place.close();
  }

  /** Reads, changes and writes, again when another process was faster. `work` says whether there is something to write. */
  async #change(signal: AbortSignal, work: (board: Board) => boolean): Promise<void> {
    for (let tries = 1; ; tries++) {
      const before = await this.#read(signal);
      const board = boardOf(before);
      if (!work(board)) return;
      const { status, body } = await this.#write(JSON.stringify(board), before ?? "", signal);
      if (status === 200 && body.trim() === "true") return;
      // A write that came too late is answered with 500, 409 or a plain false, depending on the version.
      const late = status === 200 || status === 409 || status === 500;
      if (!late) throw new HttpError(`POST ${this.#place.name}${CONFIGS}`, { status, body });
      if (tries === MAX_TRIES) throw new Error(`a write was refused ${tries} times; others may be faster (${status})`);
      const rest = Math.random() * Math.min(LONGEST_TRY_REST_MS, TRY_REST_MS * 2 ** (tries - 1));
      await sleep(rest, undefined, { signal, ref: false });
    }
  }

  /** The content; null when there is none. */
  async #read(signal: AbortSignal): Promise<string | null> {
    const { timeoutMs } = this.#options;
    const path = `${CONFIGS}?${this.#query()}`;
    const answer = await this.#ask({ method: "GET", path, timeoutMs, signal });
    if (answer.status === 404) return null;
    if (answer.status !== 200) throw new HttpError(`GET ${this.#place.name}${CONFIGS}`, answer);
    return answer.body;
  }

  #write(content: string, before: string, signal: AbortSignal): Promise<Answer> {
    const { timeoutMs } = this.#options;
    const body = `${this.#query()}&type=json&content=${encodeURIComponent(content)}`;
    // For a configuration that does not exist any sum will do; that of nothing never fits one that does.
    const headers = { ...FORM, casMd5: md5(before) };
    return this.#ask({ method: "POST", path: CONFIGS, headers, body, timeoutMs, signal });
  }

  /** Resolves when the content is not what is known (true), or when the poll's time is over. */
  async #poll(known: string | null, once: boolean, signal: AbortSignal): Promise<boolean> {
    const { dataId, group, namespace, timeoutMs } = this.#options;
    const line = `${[dataId, group, known === null ? "" : md5(known), namespace].join("\u0002")}\u0001`;
    const headers = {
      ...FORM,
      "Long-Pulling-Timeout": String(POLL_MS),
      ...(once ? { "Long-Pulling-Timeout-No-Hangup": "true" } : {}),
    };
    const answer = await this.#ask({
      method: "POST",
      path: `${CONFIGS}/listener`,
      headers,
      body: `Listening-Configs=${encodeURIComponent(line)}`,
      timeoutMs: once ? timeoutMs : POLL_MS + POLL_SLACK_MS,
      signal,
    });
    if (answer.status !== 200) throw new HttpError(`POST ${this.#place.name}${CONFIGS}/listener`, answer);
    return answer.body.trim() !== "";
  }

  #query(): string {
    const { dataId, group, namespace } = this.#options;
    return `dataId=${dataId}&group=${group}${namespace === "" ? "" : `&tenant=${namespace}`}`;
  }

  /** Asks with a token where there is a user, and once more with a new one when the token is no good any more. */
  async #ask(ask: Ask): Promise<Answer> {
    const { username, password = "", timeoutMs } = this.#options;
    if (username === undefined) return this.#place.ask(ask);
    for (let tries = 0; ; tries++) {
      if (this.#token === undefined) {
        const body = `username=${encodeURIComponent(username)}&password=${encodeURIComponent(password)}`;
        const login = { method: "POST" as const, path: "/v1/auth/login", headers: FORM, body, timeoutMs };
        const text = await this.#place.must({ ...login, signal: ask.signal });
        this.#token = (JSON.parse(text) as { accessToken: string }).accessToken;
      }
      const token = this.#token;
      const answer = await this.#place.ask({ ...ask, headers: { ...ask.headers, authorization: `Bearer ${token}` } });
      if (tries > 0 || (answer.status !== 401 && answer.status !== 403)) return answer;
      if (this.#token === token) this.#token = undefined;
    }
  }
}

const md5 = (text: string): string => createHash("md5").update(text).digest("hex");

/** @throws Error when the content is not ours */
function boardOf(content: string | null): Board {
  if (content === null || content.trim() === "") return {};
  let value: unknown;
  try {
    value = JSON.parse(content);
  } catch {
    value = null;
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new Error("the configuration is no JSON object; it is left as it is, remove it to go on");
  }
  return value as Board;
}

function textsOf(board: Board): ReadonlyMap<string, string> {
  return new Map(Object.entries(board).map(([holder, document]) => [holder, JSON.stringify(document)]));
}
