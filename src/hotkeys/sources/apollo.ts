/**
 * Hot keys in Apollo: an item per holder in a namespace of the format `properties`. Items are written by the portal's open
 * API and count once the namespace is released; a release takes every item as it is then, so whoever releases last loses
 * nothing of others. They are read from the config service, which holds a notification request until there is a release.
 *
 * ```text
 * portal          PUT|DELETE …/namespaces/<ns>/items/<holder>, then POST …/namespaces/<ns>/releases
 * config service  GET /notifications/v2 (held, 304 when nothing came), then GET /configs/<app>/<cluster>/<ns>
 * ```
 */
import { createHmac } from "node:crypto";
import type { SourceOf } from "../../options/hot-key-source.js";
import type { Carrier, Feed } from "./carrier.js";
import type { Ask } from "./http.js";
import { HttpError, HttpPlace } from "./http.js";

/** The server's default limit of a value, in characters. */
const MAX_BYTES = 20_000;
/** The server holds a notification request for a minute. */
const POLL_MS = 90_000;
/** No release has been seen yet. */
const NO_RELEASE = -1;
const TITLE = "keylane hot keys";

interface Notification {
  readonly notificationId: number;
  readonly messages?: object;
}

export class ApolloCarrier implements Carrier {
  readonly name: string;
  readonly maxBytes = MAX_BYTES;
  readonly pollBeats = 2;
  readonly #options: SourceOf<"apollo">;
  readonly #holder: string;
  readonly #portal: HttpPlace;
  readonly #config: HttpPlace;
  readonly #namespace: string;
  /** What the last notification said; given back, so that the config service answers with nothing older. */
  #messages: object | undefined;

  constructor(holder: string, options: SourceOf<"apollo">) {
    const { appId, env, cluster, namespace } = options;
    this.#options = options;
    this.#holder = holder;
    this.#portal = new HttpPlace([options.portal], options.tls);
    this.#config = new HttpPlace(options.servers, options.tls);
    this.#namespace = `/openapi/v1/envs/${env}/apps/${appId}/clusters/${cluster}/namespaces/${namespace}`;
    this.name = `apollo ${this.#config.name} ${appId} ${namespace}`;
  }

  secrets(): readonly string[] {
    return [this.#options.token, this.#options.secret ?? ""];
  }

  async list(signal: AbortSignal): Promise<ReadonlyMap<string, string>> {
    const { appId, cluster, namespace, timeoutMs } = this.#options;
    const messages = this.#messages;
    // No release key is named: with one a server may answer with the difference alone.
    const query = messages === undefined ? "" : `?messages=${encodeURIComponent(JSON.stringify(messages))}`;
    const path = `/configs/${appId}/${cluster}/${namespace}`;
    const answer = await this.#config.ask(this.#signed({ method: "GET", path: path + query, timeoutMs, signal }));
    // A namespace that was never released is not found.
    if (answer.status === 404) return new Map();
    if (answer.status !== 200) throw new HttpError(`GET ${this.#config.name}${path}`, answer);
    const { configurations } = JSON.parse(answer.body) as { configurations: Record<string, string> };
    return new Map(Object.entries(configurations));
  }

  async listen(feed: Feed, signal: AbortSignal): Promise<void> {
    const { appId, cluster, namespace } = this.#options;
    let notificationId = NO_RELEASE;
    feed.all(await this.list(signal));
    feed.up();
    for (;;) {
      const notifications = encodeURIComponent(JSON.stringify([{ namespaceName: namespace, notificationId }]));
      const path = `/notifications/v2?appId=${appId}&cluster=${cluster}&notifications=${notifications}`;
      const answer = await this.#config.ask(this.#signed({ method: "GET", path, timeoutMs: POLL_MS, signal }));
      if (answer.status === 304) continue;
      if (answer.status !== 200) throw new HttpError(`GET ${this.#config.name}/notifications/v2`, answer);
      const [told] = JSON.parse(answer.body) as Notification[];
      if (told === undefined) throw new Error("a notification names no namespace");
      notificationId = told.notificationId;
      this.#messages = told.messages;
      feed.all(await this.list(signal));
    }
  }

  async put(text: string, signal: AbortSignal): Promise<void> {
    const { operator } = this.#options;
    const item = { key: this.#holder, value: text, dataChangeCreatedBy: operator, dataChangeLastModifiedBy: operator };
    await this.#manage("PUT", `${this.#item(this.#holder)}?createIfNotExists=true`, signal, item);
    await this.#release(signal);
  }

  async remove(signal: AbortSignal): Promise<void> {
    await this.#delete(this.#holder, signal);
    await this.#release(signal);
  }

  async sweep(holder: string, text: string, signal: AbortSignal): Promise<void> {
    const { value } = JSON.parse(await this.#manage("GET", this.#item(holder), signal)) as { value?: string };
    if (value !== text) return;
    await this.#delete(holder, signal);
    await this.#release(signal);
  }

  close(): void {
    this.#portal.close();
    this.#config.close();
  }

  #item(holder: string): string {
    return `/items/${encodeURIComponent(holder)}`;
  }

  /** An item that is not there is as good as deleted; one that was deleted and not released is released by the caller. */
  async #delete(holder: string, signal: AbortSignal): Promise<void> {
    const operator = encodeURIComponent(this.#options.operator);
    try {
      await this.#manage("DELETE", `${this.#item(holder)}?operator=${operator}`, signal);
    } catch (error) {
      if (!(error instanceof HttpError) || error.status !== 404) throw error;
    }
  }

  async #release(signal: AbortSignal): Promise<void> {
    const body = { releaseTitle: TITLE, releasedBy: this.#options.operator };
    await this.#manage("POST", "/releases", signal, body);
  }

  #manage(method: Ask["method"], path: string, signal: AbortSignal, body?: object): Promise<string> {
    const { token, timeoutMs } = this.#options;
    const headers = { authorization: token, "content-type": "application/json;charset=UTF-8" };
    const ask = { method, path: this.#namespace + path, headers, timeoutMs, signal };
    return this.#portal.must(body === undefined ? ask : { ...ask, body: JSON.stringify(body) });
  }

  /** With an access key, the time and the path are signed: base64(HMAC-SHA1(key, time + "\n" + path and query)). */
  #signed(ask: Ask): Ask {
    const { appId, secret } = this.#options;
    if (secret === undefined) return ask;
    const sign = (target: string): Record<string, string> => {
      const timestamp = String(Date.now());
      const signature = createHmac("sha1", secret).update(`${timestamp}\n${target}`).digest("base64");
      return { authorization: `Apollo ${appId}:${signature}`, timestamp };
    };
    return { ...ask, sign };
  }
}
