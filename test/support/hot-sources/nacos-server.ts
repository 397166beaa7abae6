/**
 * What Nacos 2.x does with the requests a source makes: configurations that are published by comparing MD5 sums and read
 * from a copy that follows a moment later, polls that are held until a configuration differs, and tokens that run out.
 */
import { createHash } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { EventEmitter } from "node:events";
import type { WebAnswer, WebRequest } from "./web-server.js";
import { WebServer } from "./web-server.js";

const md5 = (text: string): string => createHash("md5").update(text).digest("hex");
/** Published content is served after so long. */
const COPY_MS = 3;

export interface NacosRules {
  /** Credentials that are demanded. */
  readonly user?: { readonly username: string; readonly password: string };
  /** Longest a poll is held. */
  readonly holdMs?: number;
}

export class NacosServer {
  readonly #rules: NacosRules;
  readonly #web: WebServer;
  /** What was published, and what is served of it; keys are data id, group and namespace. */
  readonly #published = new Map<string, string>();
  readonly #served = new Map<string, string>();
  readonly #changed = new EventEmitter();
  #tokens = new Set<string>();
  /** Writes that came too late, writes that counted, polls, and answers of polls that were empty. */
  readonly counts = { conflicts: 0, writes: 0, polls: 0, empty: 0, logins: 0 };

  private constructor(rules: NacosRules) {
    this.#rules = rules;
    this.#changed.setMaxListeners(0);
    this.#web = new WebServer((request) => this.#answer(request));
  }

  static async start(rules: NacosRules = {}): Promise<NacosServer> {
    const server = new NacosServer(rules);
    await server.up();
    return server;
  }

  get url(): string {
    return this.#web.url;
  }

  up(): Promise<void> {
    return this.#web.up();
  }

  down(): Promise<void> {
    return this.#web.down();
  }

  content(dataId: string, group = "DEFAULT_GROUP", tenant = ""): string | undefined {
    return this.#published.get(`${dataId}/${group}/${tenant}`);
  }

  /** Publishes as an operator does, whatever was there. */
  publish(dataId: string, content: string | null, group = "DEFAULT_GROUP", tenant = ""): void {
    this.#set(`${dataId}/${group}/${tenant}`, content);
  }

  /** Makes every token worthless. */
  expireTokens(): void {
    this.#tokens = new Set();
  }

  #set(id: string, content: string | null): void {
    if (content === null) this.#published.delete(id);
    else this.#published.set(id, content);
    void sleep(COPY_MS).then(() => {
      const now = this.#published.get(id);
      if (now === undefined) this.#served.delete(id);
      else this.#served.set(id, now);
      this.#changed.emit("changed");
      return undefined;
    });
  }

  #answer(request: WebRequest): WebAnswer | Promise<WebAnswer> {
    const { pathname } = request.url;
    if (pathname === "/nacos/v1/auth/login" && request.method === "POST") return this.#login(request);
    const { authorization = "" } = request.headers;
    if (this.#rules.user !== undefined && !this.#tokens.has(authorization))
      return { status: 403, body: "token invalid!" };
    if (pathname === "/nacos/v1/cs/configs/listener" && request.method === "POST") return this.#poll(request);
    if (pathname !== "/nacos/v1/cs/configs") return { status: 404, body: "no such path" };
    if (request.method === "GET") return this.#get(request.url.searchParams);
    if (request.method === "POST") return this.#post(request);
    return { status: 405 };
  }

  #login({ form }: WebRequest): WebAnswer {
    this.counts.logins += 1;
    const { username, password } = this.#rules.user ?? {};
    if (form.get("username") !== username || form.get("password") !== password) {
      return { status: 403, body: `unknown user! ${form.get("password")}` };
    }
    const accessToken = `token-${this.counts.logins}`;
    this.#tokens.add(`Bearer ${accessToken}`);
    return { status: 200, body: JSON.stringify({ accessToken, tokenTtl: 18_000, globalAdmin: false }) };
  }

  #get(query: URLSearchParams): WebAnswer {
    const content = this.#served.get(idOf(query));
    return content === undefined ? { status: 404, body: "config data not exist" } : { status: 200, body: content };
  }

  #post({ form, headers }: WebRequest): WebAnswer {
    const id = idOf(form);
    const content = form.get("content") ?? "";
    if (content.trim() === "") return { status: 400, body: "invalid content" };
    const before = this.#published.get(id);
    const cas = headers["casmd5"];
    if (before !== undefined && typeof cas === "string" && cas !== "" && cas !== md5(before)) {
      this.counts.conflicts += 1;
      return { status: 500, body: "false" };
    }
    this.counts.writes += 1;
    this.#set(id, content);
    return { status: 200, body: "true" };
  }

  async #poll({ form, headers, closed }: WebRequest): Promise<WebAnswer> {
    const held = Number(headers["long-pulling-timeout"]);
    const [dataId, group, sum, tenant = ""] = (form.get("Listening-Configs") ?? "").split("\u0001")[0]!.split("\u0002");
    if (sum === undefined || !(held > 0)) return { status: 400, body: "invalid probeModify" };
    this.counts.polls += 1;
    const id = `${dataId}/${group}/${tenant}`;
    const deadline = performance.now() + Math.min(held, this.#rules.holdMs ?? held);
    let open = true;
    void closed.then(() => (open = false));
    for (;;) {
      const content = this.#served.get(id);
      if ((content === undefined ? "" : md5(content)) !== sum) {
        return { status: 200, body: encodeURIComponent(`${dataId}\u0002${group}\u0002${tenant}\u0001`) };
      }
      const left = deadline - performance.now();
      if (left <= 0 || !open || headers["long-pulling-timeout-no-hangup"] === "true") break;
      await this.#web.held(this.#changed, left, closed);
    }
    this.counts.empty += 1;
    return { status: 200 };
  }
}

function idOf(fields: URLSearchParams): string {
  return `${fields.get("dataId")}/${fields.get("group")}/${fields.get("tenant") ?? ""}`;
}
