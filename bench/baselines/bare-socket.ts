/**
 * The bound: what the sockets and the servers allow when the client does nothing. Requests are encoded before the clock
 * starts, one write per primary and batch, no promise per operation; replies are only compared, as bytes, with the bytes
 * that must come, which checks every value and its order.
 */
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import keySlot from "cluster-key-slot";
import { WrongValue } from "../harness/keys.js";
import { encodeCommand, slotMap, type Primary } from "../harness/nodes.js";
import { type Baseline, cutBatches } from "./baseline.js";

/** What to write to one primary, and what must come back. */
interface Exchange {
  readonly request: Buffer;
  readonly reply: Buffer;
}

/** One connection; at most one exchange at a time. */
class BareConnection {
  readonly #socket: Socket;
  #expected: Buffer = Buffer.alloc(0);
  #got = 0;
  #resolve: () => void = () => {};
  #reject: (reason: Error) => void = () => {};

  constructor(node: Primary) {
    const buffer = Buffer.allocUnsafe(65_536);
    this.#socket = connect({
      host: node.host,
      port: node.port,
      noDelay: true,
      onread: { buffer, callback: (bytes) => this.#take(buffer, bytes) },
    });
    this.#socket.on("error", (error) => this.#reject(error));
    this.#socket.on("close", () => this.#reject(new Error("a server closed the connection")));
  }

  async ready(): Promise<this> {
    await once(this.#socket, "connect");
    return this;
  }

  exchange(what: Exchange): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#expected = what.reply;
      this.#got = 0;
      this.#resolve = resolve;
      this.#reject = reject;
      this.#socket.write(what.request);
    });
  }

  end(): void {
    this.#socket.destroy();
  }

  #take(chunk: Buffer, bytes: number): boolean {
    const from = this.#got;
    this.#got += bytes;
    const same = this.#got <= this.#expected.length && chunk.compare(this.#expected, from, this.#got, 0, bytes) === 0;
    if (!same) {
      let at = 0;
      while (chunk[at] === this.#expected[from + at]) at += 1;
      const expected = this.#expected.toString("latin1", from + at, from + at + 40);
      this.#reject(new WrongValue("a reply", expected, chunk.toString("latin1", at, Math.min(bytes, at + 40))));
    } else if (this.#got === this.#expected.length) this.#resolve();
    return true;
  }
}

export const baseline: Baseline = {
  name: "bare socket, encoded in advance",
  role: "bound",
  kind: "batch",
  async open({ nodes, set }) {
    const { primaries, owner } = await slotMap(nodes[0]);
    const connections = await Promise.all(primaries.map((node) => new BareConnection(node).ready()));
    return {
      prepare(size) {
        const batches = cutBatches(set, size).map((positions) => {
          const requests: string[] = primaries.map(() => "");
          const replies: string[] = primaries.map(() => "");
          for (const at of positions) {
            const node = owner[keySlot(set.keys[at])];
            requests[node] += encodeCommand("GET", set.keys[at]);
            replies[node] += `$${set.values[at].length}\r\n${set.values[at]}\r\n`;
          }
          return requests
            .map((request, n) => ({
              connection: connections[n],
              request: Buffer.from(request, "latin1"),
              reply: Buffer.from(replies[n], "latin1"),
            }))
            .filter(({ request }) => request.length > 0);
        });
        return {
          count: batches.length,
          async run(i) {
            await Promise.all(batches[i].map((exchange) => exchange.connection.exchange(exchange)));
          },
        };
      },
      close() {
        for (const connection of connections) connection.end();
        return Promise.resolve();
      },
    };
  },
};
