/**
 * The connector through which ioredis dials for a lane. ioredis does the handshake (TLS, AUTH, HELLO, READONLY) over the
 * socket it gets from here; from `ready` on, the lane takes the bytes: reads land in the lane's own reusable buffer and
 * never become stream chunks. The invariant: a byte is given either to ioredis or to the lane, never to both, and the
 * switch happens between two reads.
 */
import { connect as connectTcp, isIP } from "node:net";
import type { Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import type { ConnectionOptions } from "node:tls";
import { AbstractConnector } from "ioredis";

/** Longest handshake that is believed, in bytes; HELLO takes some hundred. */
const MAX_HANDSHAKE = 1 << 20;

/** Receives the bytes of a connection once the lane owns it. */
export interface ByteSink {
  /** Memory for the next read. Called after every read. */
  memory(): Buffer;
  /** `count` bytes were read to the start of `memory`: normally what `memory()` gave last, at the switch an older buffer. */
  received(memory: Uint8Array, count: number): void;
}

/** Hands out the sockets of one node. Its `Connector` goes into the ioredis options. */
export class SocketSource {
  readonly Connector: new (options: unknown) => AbstractConnector;
  /** The socket of the connection being made or in use. */
  socket: Socket | null = null;
  #sink: ByteSink | null = null;
  readonly #handshake = Buffer.allocUnsafeSlow(16 << 10);

  /** `serverName` is what the node's certificate speaks of, when not `host`; `tls.servername` outweighs it. */
  constructor(where: {
    host: string;
    port: number;
    serverName?: string | undefined;
    tls?: ConnectionOptions | undefined;
  }) {
    const { host, port, serverName = host, tls } = where;
    const names = isIP(serverName) === 0 ? { servername: serverName } : {};
    const dial = (): Socket => this.#dial(host, port, tls === undefined ? undefined : { ...names, ...tls });
    this.Connector = class LaneConnector extends AbstractConnector {
      constructor() {
        super(0);
      }

      /** At once: the inherited way waits for the peer, by a timer that outlives a socket which failed to connect. */
      override disconnect(): void {
        this.connecting = false;
        this.stream?.destroy();
      }

      override connect(): Promise<Socket> {
        this.connecting = true;
        return new Promise((resolve, reject) => {
          process.nextTick(() => {
            if (!this.connecting) {
              reject(new Error("Connection is closed."));
              return;
            }
            const socket = dial();
            this.stream = socket;
            socket.once("error", (error) => {
              this.firstError = error;
            });
            resolve(socket);
          });
        });
      }
    };
  }

  /** From now on reads go to `sink`; ioredis no longer sees them. */
  handOver(sink: ByteSink): Socket {
    const { socket } = this;
    if (socket === null || socket.destroyed) throw new Error("the connection closed before it could be taken over");
    this.#sink = sink;
    socket.removeAllListeners("data");
    return socket;
  }

  #dial(host: string, port: number, tls: ConnectionOptions | undefined): Socket {
    this.#sink = null;
    let received = 0;
    const onread = {
      buffer: (): Buffer => (this.#sink === null ? this.#handshake : this.#sink.memory()),
      callback: (count: number, memory: Uint8Array): boolean => {
        received += count;
        if (this.#sink !== null) this.#sink.received(memory, count);
        else if (received <= MAX_HANDSHAKE) socket.emit("data", Buffer.from(memory.subarray(0, count)));
        else
          socket.destroy(new Error(`the server sent more than ${MAX_HANDSHAKE} bytes before the handshake was over`));
        return true;
      },
    };
    const socket: Socket =
      tls === undefined
        ? connectTcp({ host, port, onread, noDelay: true })
        : connectTls(Object.assign({ ...tls }, { host, port, onread }));
    this.socket = socket;
    return socket;
  }
}

/** Takes over a stream that somebody else dialled (ioredis, behind Sentinels); its chunks are copied to the sink. */
export function takeStream(socket: Socket, sink: ByteSink): Socket {
  if (socket.destroyed) throw new Error("the connection closed before it could be taken over");
  socket.removeAllListeners("data");
  socket.on("data", (chunk: Buffer) => sink.received(chunk, chunk.length));
  return socket;
}
