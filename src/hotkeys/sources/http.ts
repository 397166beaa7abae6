/**
 * HTTP for sources that speak it: requests with a deadline and a bound on what is read, long polls, and lines of an endless
 * answer. Several addresses are tried in turn: the one that answered last is asked first. Messages name the address and the
 * path, never the query, headers or body, where secrets are.
 */
import { Agent as HttpAgent, request as requestHttp } from "node:http";
import type { IncomingMessage, OutgoingHttpHeaders } from "node:http";
import { Agent as HttpsAgent, request as requestHttps } from "node:https";
import type { ConnectionOptions } from "node:tls";

/** Longest answer that is read whole, and longest line of an endless one. */
const MAX_ANSWER_BYTES = 16 << 20;
/** Part of an error's answer that is quoted. */
const MAX_QUOTE = 200;
/** Idle connections are probed after so long, so that a dead peer is noticed where nothing is sent for long. */
const KEEP_ALIVE_MS = 10_000;

/** One request. */
export interface Ask {
  readonly method: "GET" | "POST" | "PUT" | "DELETE";
  /** Path below the base address, with its query. */
  readonly path: string;
  readonly headers?: OutgoingHttpHeaders;
  /** Further headers, made from the path and query as they are sent. */
  readonly sign?: (target: string) => OutgoingHttpHeaders;
  readonly body?: string;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

/** An answer, whatever its status. */
export interface Answer {
  readonly status: number;
  readonly body: string;
}

/** An answer that says no. */
export class HttpError extends Error {
  readonly status: number;
  readonly body: string;

  constructor(place: string, { status, body }: Answer) {
    const quote = body.trim().slice(0, MAX_QUOTE);
    super(`${place} answered ${status}${quote === "" ? "" : `: ${quote}`}`);
    this.status = status;
    this.body = body;
  }
}

export class HttpPlace {
  readonly #bases: readonly URL[];
  readonly #agents: { readonly http: HttpAgent; readonly https: HttpsAgent };
  #at = 0;

  constructor(bases: readonly string[], tls: ConnectionOptions | undefined) {
    this.#bases = bases.map((base) => new URL(base));
    const options = { keepAlive: true, keepAliveMsecs: KEEP_ALIVE_MS };
    this.#agents = { http: new HttpAgent(options), https: new HttpsAgent({ ...tls, ...options }) };
  }

  /** The addresses, for people. */
  get name(): string {
    return this.#bases.map(({ host }) => host).join(",");
  }

  /** Asks; resolves with any status. @throws Error when no address answers in time */
  ask(ask: Ask): Promise<Answer> {
    return this.#somewhere(ask, async (response, place) => {
      const answer = { status: response.statusCode ?? 0, body: await bodyOf(response, place, ask) };
      if (answer.status >= 502 && answer.status <= 504) throw new HttpError(place, answer);
      return answer;
    });
  }

  /** Asks; resolves with the body of a 2xx. @throws HttpError for any other status */
  must(ask: Ask): Promise<string> {
    return this.#somewhere(ask, (response, place) => fineBody(response, place, ask));
  }

  /**
   * Asks and gives each line of a 2xx to `line`, until the answer ends or the ask is aborted; the timeout is that of its
   * beginning. @throws Error also when it ends
   */
  async lines(ask: Ask, line: (text: string) => void): Promise<never> {
    const { response, place } = await this.#somewhere(ask, async (response, place) => ({ response, place }));
    const status = response.statusCode ?? 0;
    if (status < 200 || status > 299) await fineBody(response, place, ask);
    let rest = "";
    response.setEncoding("utf8");
    for await (const chunk of response) {
      const parts = (rest + String(chunk)).split("\n");
      rest = parts.pop()!;
      if (rest.length > MAX_ANSWER_BYTES) throw new Error(`${place} sent a line that is too long`);
      for (const part of parts) if (part !== "") line(part);
    }
    throw new Error(`${place} ended its answer`);
  }

  close(): void {
    this.#agents.http.destroy();
    this.#agents.https.destroy();
  }

  /** Asks one address after the other until `work` is content with an answer; an answer that says no is one. */
  async #somewhere<T>(ask: Ask, work: (response: IncomingMessage, place: string) => Promise<T>): Promise<T> {
    const first = this.#at;
    let failure: unknown;
    for (let tries = 0; tries < this.#bases.length && !(tries > 0 && ask.signal.aborted); tries++) {
      const at = (first + tries) % this.#bases.length;
      const base = this.#bases[at]!;
      try {
        const result = await work(await this.#begin(base, ask), placeOf(base, ask));
        this.#at = at;
        return result;
      } catch (error) {
        failure = error;
        if (error instanceof HttpError && (error.status < 502 || error.status > 504)) break;
      }
    }
    throw failure;
  }

  /** Sends; resolves when the head of the answer is there. */
  #begin(base: URL, ask: Ask): Promise<IncomingMessage> {
    const { method, path, headers, sign, body, timeoutMs, signal } = ask;
    const place = placeOf(base, ask);
    const secure = base.protocol === "https:";
    const url = new URL(base.href.replace(/\/$/, "") + path);
    const all = {
      ...headers,
      ...sign?.(url.pathname + url.search),
      ...(body === undefined ? {} : { "content-length": Buffer.byteLength(body) }),
    };
    return new Promise((resolve, reject) => {
      const options = { method, headers: all, signal };
      const sent = secure
        ? requestHttps(url, { ...options, agent: this.#agents.https })
        : requestHttp(url, { ...options, agent: this.#agents.http });
      const late = setTimeout(() => sent.destroy(new Error(`no answer within ${timeoutMs} ms`)), timeoutMs);
      sent.once("response", (response) => {
        clearTimeout(late);
        resolve(response);
      });
      sent.on("error", (error: NodeJS.ErrnoException) => {
        clearTimeout(late);
        // The other side closed an idle connection just when it was used again.
        if (sent.reusedSocket && error.code === "ECONNRESET") resolve(this.#begin(base, ask));
        else reject(new Error(`${place}: ${error.message === "" ? error.code : error.message}`));
      });
      sent.on("socket", (socket) => socket.setKeepAlive(true, KEEP_ALIVE_MS));
      sent.end(body);
    });
  }
}

/** The body of a 2xx. @throws HttpError for any other status */
async function fineBody(response: IncomingMessage, place: string, ask: Ask): Promise<string> {
  const answer = { status: response.statusCode ?? 0, body: await bodyOf(response, place, ask) };
  if (answer.status < 200 || answer.status > 299) throw new HttpError(place, answer);
  return answer.body;
}

/** The whole body, within the ask's timeout. */
async function bodyOf(response: IncomingMessage, place: string, { timeoutMs }: Ask): Promise<string> {
  const late = setTimeout(() => response.destroy(new Error(`${place} did not end its answer in time`)), timeoutMs);
  const chunks: Buffer[] = [];
  let length = 0;
  try {
    for await (const chunk of response as AsyncIterable<Buffer>) {
      length += chunk.length;
      if (length > MAX_ANSWER_BYTES) throw new Error(`${place} answered more than ${MAX_ANSWER_BYTES} bytes`);
      chunks.push(chunk);
    }
  } finally {
    clearTimeout(late);
  }
  return Buffer.concat(chunks).toString();
}

function placeOf(base: URL, { method, path }: Pick<Ask, "method" | "path">): string {
  return `${method} ${base.host}${path.split("?", 1)[0]!}`;
}
