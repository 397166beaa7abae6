/** An HTTP server for scripted services: it keeps its port over stops, and a stop cuts every connection. */
import { once } from "node:events";
import type { EventEmitter } from "node:events";
import { createServer } from "node:http";
import type { IncomingMessage, Server } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

/** A request, its body read. */
export interface WebRequest {
  readonly method: string;
  /** Path and query as they were sent. */
  readonly target: string;
  readonly url: URL;
  readonly headers: IncomingMessage["headers"];
  readonly body: string;
  /** Fields of a form. */
  readonly form: URLSearchParams;
  /** Resolves when the connection is closed. */
  readonly closed: Promise<void>;
}

export interface WebAnswer {
  readonly status: number;
  readonly body?: string;
}

export class WebServer {
  readonly #handle: (request: WebRequest) => WebAnswer | Promise<WebAnswer>;
  #server: Server | undefined;
  #port = 0;

  constructor(handle: (request: WebRequest) => WebAnswer | Promise<WebAnswer>) {
    this.#handle = handle;
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  async up(): Promise<void> {
    const server = createServer((request, response) => {
      const closed = new Promise<void>((resolve) => response.once("close", resolve));
      const chunks: Buffer[] = [];
      request.on("data", (chunk: Buffer) => void chunks.push(chunk));
      request.on("end", () => {
        const { method = "", url: target = "", headers } = request;
        const body = Buffer.concat(chunks).toString();
        const all = {
          method,
          target,
          url: new URL(target, this.url),
          headers,
          body,
          form: new URLSearchParams(body),
          closed,
        };
        Promise.resolve(this.#handle(all)).then(
          ({ status, body = "" }) => void response.writeHead(status).end(body),
          (error: Error) => void response.writeHead(500).end(error.message),
        );
      });
    });
    await new Promise<void>((resolve) => server.listen(this.#port, "127.0.0.1", resolve));
    this.#port = (server.address() as AddressInfo).port;
    this.#server = server;
  }

  async down(): Promise<void> {
    const server = this.#server;
    if (server === undefined) return;
    this.#server = undefined;
    const closed = new Promise<void>((resolve) => server.close(() => resolve()));
    server.closeAllConnections();
    await closed;
  }

  /** Holds a request until something changed, its time is over, or its connection is closed. */
  async held(changes: EventEmitter, ms: number, closed: Promise<void>): Promise<void> {
    const over = new AbortController();
    const { signal } = over;
    await Promise.race([once(changes, "changed", { signal }), sleep(ms, undefined, { signal }), closed]);
    over.abort();
  }
}
