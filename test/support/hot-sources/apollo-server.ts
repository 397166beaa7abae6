/**
 * What Apollo's portal and config service do with the requests a source makes: items count once they are released, values
 * have a longest length, notification requests are held and answered with 304 when nothing was released, and access keys
 * are checked over path and query.
 */
import { createHmac } from "node:crypto";
import { EventEmitter } from "node:events";
import type { WebAnswer, WebRequest } from "./web-server.js";
import { WebServer } from "./web-server.js";

const MAX_VALUE = 20_000;
const TOKEN = "portal-token";
const OPERATOR = "apollo";
const MAX_SKEW_MS = 60_000;

export interface ApolloRules {
  readonly appId: string;
  readonly namespace: string;
  /** Access key of the app. */
  readonly secret?: string;
  /** Longest a notification request is held. */
  readonly holdMs?: number;
}

export class ApolloServer {
  readonly token = TOKEN;
  readonly operator = OPERATOR;
  readonly #rules: ApolloRules;
  readonly #web: WebServer;
  readonly items = new Map<string, string>();
  #released: Record<string, string> | undefined;
  #releases = 0;
  readonly #changed = new EventEmitter();
  readonly counts = { unchanged: 0, refused: 0 };

  private constructor(rules: ApolloRules) {
    this.#rules = rules;
    this.#changed.setMaxListeners(0);
    this.#web = new WebServer((request) => this.#answer(request));
  }

  static async start(rules: ApolloRules): Promise<ApolloServer> {
    const server = new ApolloServer(rules);
    await server.up();
    return server;
  }

  /** Portal and config service in one. */
  get url(): string {
    return this.#web.url;
  }

  /** What is released. */
  get released(): Readonly<Record<string, string>> {
    return this.#released ?? {};
  }

  up(): Promise<void> {
    return this.#web.up();
  }

  down(): Promise<void> {
    return this.#web.down();
  }

  release(): void {
    this.#released = Object.fromEntries(this.items);
    this.#releases += 1;
    this.#changed.emit("changed");
  }

  #answer(request: WebRequest): WebAnswer | Promise<WebAnswer> {
    const { appId, namespace } = this.#rules;
    const { pathname } = request.url;
    const managed = `/openapi/v1/envs/DEV/apps/${appId}/clusters/default/namespaces/${namespace}`;
    if (pathname.startsWith(managed)) return this.#manage(request, pathname.slice(managed.length));
    if (!this.#signed(request)) return { status: 401, body: "Unauthorized" };
    if (pathname === `/configs/${appId}/default/${namespace}`) return this.#configs();
    if (pathname === "/notifications/v2") return this.#notify(request);
    return { status: 404, body: "no such path" };
  }

  #manage({ method, headers, body, url }: WebRequest, path: string): WebAnswer {
    if (headers.authorization !== TOKEN) {
      this.counts.refused += 1;
      return { status: 401, body: `no consumer has the token ${headers.authorization}` };
    }
    if (path === "/releases" && method === "POST") {
      const { releaseTitle, releasedBy } = JSON.parse(body) as Record<string, string>;
      if (releaseTitle === undefined || releaseTitle.length > 64 || releasedBy !== OPERATOR) return { status: 400 };
      this.release();
      return { status: 200, body: JSON.stringify({ configurations: this.#released }) };
    }
    const key = decodeURIComponent(path.slice("/items/".length));
    const exists = this.items.has(key);
    if (method === "PUT") return this.#put(key, exists || url.searchParams.get("createIfNotExists") === "true", body);
    if (!exists) return { status: 404, body: `item not found: ${key}` };
    if (method === "GET") return { status: 200, body: JSON.stringify({ key, value: this.items.get(key) }) };
    if (method !== "DELETE") return { status: 405 };
    if (url.searchParams.get("operator") !== OPERATOR)
      return { status: 400, body: "operator should not be null or empty" };
    this.items.delete(key);
    return { status: 200 };
  }

  #put(key: string, may: boolean, body: string): WebAnswer {
    const item = JSON.parse(body) as Record<string, string>;
    if (!may) return { status: 404, body: `item not found: ${key}` };
    if (item["key"] !== key) return { status: 400, body: "Key in path and payload is not consistent" };
    const by = [item["dataChangeLastModifiedBy"], item["dataChangeCreatedBy"]];
    if (by.some((one) => one !== OPERATOR)) return { status: 400, body: "user does not exist" };
    const value = item["value"] ?? "";
    if (value.length > MAX_VALUE) return { status: 400, body: `value too long. length limit:${MAX_VALUE}` };
    this.items.set(key, value);
    return { status: 200 };
  }

  #configs(): WebAnswer {
    if (this.#released === undefined) return { status: 404, body: "Could not load configurations" };
    const { appId, namespace } = this.#rules;
    const whole = { appId, cluster: "default", namespaceName: namespace, configurations: this.#released };
    return { status: 200, body: JSON.stringify({ ...whole, releaseKey: `release-${this.#releases}` }) };
  }

  async #notify({ url, closed }: WebRequest): Promise<WebAnswer> {
    const { appId, namespace, holdMs = 60_000 } = this.#rules;
    const [asked] = JSON.parse(url.searchParams.get("notifications") ?? "[]") as {
      namespaceName: string;
      notificationId: number;
    }[];
    if (asked?.namespaceName !== namespace || url.searchParams.get("cluster") !== "default") return { status: 400 };
    // Notification ids begin at 1, and there is none before the first release.
    if (this.#releases === 0 || asked.notificationId >= this.#releases)
      await this.#web.held(this.#changed, holdMs, closed);
    if (this.#releases === 0 || asked.notificationId >= this.#releases) {
      this.counts.unchanged += 1;
      return { status: 304 };
    }
    const id = this.#releases;
    const messages = { details: { [`${appId}+default+${namespace}`]: id } };
    return { status: 200, body: JSON.stringify([{ namespaceName: namespace, notificationId: id, messages }]) };
  }

  #signed({ headers, target }: WebRequest): boolean {
    const { secret, appId } = this.#rules;
    if (secret === undefined) return true;
    const timestamp = String(headers["timestamp"]);
    const signature = createHmac("sha1", secret).update(`${timestamp}\n${target}`).digest("base64");
    const fresh = Math.abs(Date.now() - Number(timestamp)) < MAX_SKEW_MS;
    const right = fresh && headers.authorization === `Apollo ${appId}:${signature}`;
    if (!right) this.counts.refused += 1;
    return right;
  }
}
