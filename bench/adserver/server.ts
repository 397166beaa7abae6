/**
 * An ad server in small, with keylane inside: HTTP in front, decisions in worker threads, billing in the thread that opened.
 *
 * ```text
 *             main thread                          deciding threads
 * GET /ad ──▶ HTTP ── desk ── ask ──────────────▶  profile (up:, shared cache), caps (fc:)
 *        ◀── answer ◀─ ledger (rb:, on disk) ◀──── ad and price
 * ```
 *
 * An answered impression is in the ledger's spool, so it is billed once whatever happens later. SIGTERM: no connection is taken
 * any more, requests in flight are answered until `graceMs`, then refused with 503, and the process ends by itself with 0.
 *
 *     node build/bench/adserver/server.js '{"nodes": ["127.0.0.1:7001"], "directory": "/var/spool/ads"}'
 */
import { once } from "node:events";
import { createServer } from "node:http";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { Keylane } from "keylane";
import { Desk } from "./desk.js";

/** The program's one argument, as JSON. */
export interface AdServerOptions {
  readonly nodes: readonly string[];
  /** Folder of the ledger's spool. */
  readonly directory: string;
  /** Default 0: any free port. The port is told on standard output, in one line of JSON. */
  readonly port?: number;
  /** Threads that decide, default 2; and keylane's own, default 0. */
  readonly deciders?: number;
  readonly threads?: number;
  readonly commandTimeoutMs?: number;
  /** How long SIGTERM lets requests in flight run on, in milliseconds. Default 5,000. */
  readonly graceMs?: number;
}

/** Requests in flight at most; others are refused at once. */
const MOST = 10_000;

async function main(options: AdServerOptions): Promise<void> {
  const { nodes, directory, port = 0, deciders = 2, threads = 0, commandTimeoutMs = 1000, graceMs = 5000 } = options;
  const lanes = await Keylane.open({
    domains: {
      user_profile: { prefixes: ["up:"], nodes, codec: "json", cache: { mode: "all" } },
      freq_control: { prefixes: ["fc:"], nodes },
      realtime_billing: { prefixes: ["rb:"], nodes },
    },
    caps: { onError: "throw" },
    ledger: { directory },
    threads,
    commandTimeoutMs,
  });
  const desk = new Desk(deciders, () => lanes.handle({ via: threads > 0 ? "pool" : "own" }));
  const counts = { inFlight: 0, answered: 0, refused: 0 };
  let closing = false;

  const send = (response: ServerResponse, status: number, body: object): void => {
    if (closing) response.setHeader("connection", "close");
    response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
  };
  const refuse = (response: ServerResponse, reason: string): void => {
    counts.refused += 1;
    send(response, 503, { reason });
  };
  /** Decides and bills one impression. */
  const serve = async (user: string, impression: string, response: ServerResponse): Promise<void> => {
    counts.inFlight += 1;
    try {
      const ad = await desk.decide(user, impression);
      if (ad !== null) await lanes.ledger.add(`campaign:${ad.campaign}`, ad.price, { id: impression });
      counts.answered += 1;
      send(response, 200, { campaign: ad?.campaign ?? null });
    } catch (error) {
      refuse(response, (error as Error).message);
    } finally {
      counts.inFlight -= 1;
    }
  };

  const server = createServer((request: IncomingMessage, response: ServerResponse) => {
    const { pathname, searchParams } = new URL(request.url!, "http://localhost");
    const user = searchParams.get("user");
    const impression = searchParams.get("impression");
    if (pathname === "/stats") send(response, 200, { ...counts, pid: process.pid });
    else if (pathname !== "/ad") send(response, 404, { reason: "there is /ad and /stats" });
    else if (user === null || impression === null) send(response, 400, { reason: "user and impression are needed" });
    else if (closing || counts.inFlight >= MOST)
      refuse(response, closing ? "the server is closing" : "too many requests");
    else void serve(user, impression, response);
  });

  const close = async (): Promise<void> => {
    closing = true;
    const closed = once(server, "close");
    server.close();
    const late = setTimeout(() => void desk.close(), graceMs);
    await closed;
    clearTimeout(late);
    await desk.close();
    await lanes.close({ timeoutMs: graceMs });
  };
  process.once("SIGTERM", () => void close());

  server.listen({ host: "127.0.0.1", port, backlog: 4096 });
  await once(server, "listening");
  console.log(JSON.stringify({ port: (server.address() as AddressInfo).port, pid: process.pid }));
}

await main(JSON.parse(process.argv[2]) as AdServerOptions);
