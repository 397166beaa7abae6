/** A RESP client over a bare socket for tests: what a lane wrote is read back by code that shares nothing with lanes. */
import { type Reply, RespClient, type RespOptions } from "keylane/sandbox";

/** Options of `connectRaw`. */
export interface RawOptions extends Partial<Omit<RespOptions, "host" | "port">> {
  /** RESP version to ask for (default 2). */
  readonly protocol?: 2 | 3;
}

/** Connects to `host:port` (`[::1]:port` for IPv6). Bulk strings come back as Buffers. */
export async function connectRaw(address: string, options: RawOptions = {}): Promise<RespClient> {
  const { host, port } = splitAddress(address);
  const { protocol = 2, ...rest } = options;
  const client = await RespClient.connect({ host, port, ...rest });
  if (protocol === 3) await client.command("HELLO", 3);
  return client;
}

/** Runs one command on a connection of its own. */
export async function rawCommand(address: string, ...args: (string | number | bigint | Uint8Array)[]): Promise<Reply> {
  const client = await connectRaw(address);
  try {
    return await client.command(...args);
  } finally {
    client.close();
  }
}

/** Splits at the last colon. */
export function splitAddress(address: string): { host: string; port: number } {
  const colon = address.lastIndexOf(":");
  return { host: address.slice(0, colon).replace(/^\[|\]$/g, ""), port: Number(address.slice(colon + 1)) };
}
