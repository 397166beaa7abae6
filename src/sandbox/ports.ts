/**
 * Free loopback ports for servers. The invariant: no two sandboxes on a machine, in whatever process, use the same port,
 * not even while one of them has its server stopped for a moment.
 *
 * Ports come in blocks of 64. Whoever listens on a block's first port holds its lease, so the kernel itself takes the lease
 * back from a process that dies. A cluster node's bus port is its port + 10,000; both ranges end below 32,768, where Linux
 * starts to hand out ports to outgoing connections.
 *
 * ```text
 * 10240        10304        10368                22464      22528
 * | lease 63×port | lease 63×port | …           | lease 63×port |
 * ```
 */
import { createServer, type Server } from "node:net";
import { KeylaneError } from "../errors.js";

const FIRST = 10_240;
const BLOCK = 64;
const BLOCKS = 192;
/** Distance from a node's port to its cluster bus port, as the server has it by default. */
export const BUS_OFFSET = 10_000;

let nextPort = 0;
let blockEnd = 0;
let queue: Promise<unknown> = Promise.resolve();

/**
 * The next port that is free on `host` together with its bus port.
 * @throws KeylaneError `KEYLANE_ERR_SANDBOX` when no port is left.
 */
export function takePort(host: string): Promise<number> {
  const result = queue.then(() => findPort(host));
  queue = result.catch(() => undefined);
  return result;
}

async function findPort(host: string): Promise<number> {
  for (let tries = 0; tries < BLOCKS * BLOCK; tries++) {
    if (nextPort >= blockEnd) await takeBlock();
    const port = nextPort++;
    if ((await isFree(host, port)) && (await isFree(host, port + BUS_OFFSET))) return port;
  }
  throw new KeylaneError(
    "KEYLANE_ERR_SANDBOX",
    `no free port on ${host} between ${FIRST} and ${FIRST + BLOCKS * BLOCK}`,
  );
}

async function takeBlock(): Promise<void> {
  const start = Math.floor(Math.random() * BLOCKS);
  for (let index = 0; index < BLOCKS; index++) {
    const first = FIRST + ((start + index) % BLOCKS) * BLOCK;
    const server = await listen("127.0.0.1", first);
    if (server === undefined) continue;
    server.on("connection", (socket) => socket.destroy());
    server.unref();
    // Leases are kept to the end of the process: a stopped server may come back to its port.
    nextPort = first + 1;
    blockEnd = first + BLOCK;
    return;
  }
  throw new KeylaneError("KEYLANE_ERR_SANDBOX", "every block of ports is leased by another sandbox");
}

async function isFree(host: string, port: number): Promise<boolean> {
  const server = await listen(host, port);
  if (server === undefined) return false;
  await new Promise<void>((resolve) => {
    server.close(() => resolve());
  });
  return true;
}

function listen(host: string, port: number): Promise<Server | undefined> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(undefined));
    server.listen({ host, port, exclusive: true }, () => resolve(server));
  });
}
