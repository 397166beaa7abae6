/**
 * Request traces: one big-endian 32-bit object number a request, plain or gzip, told apart by the first bytes. A trace is
 * streamed: what is in memory is one chunk, however long the file. A file that is not a whole trace is an error, not a
 * shorter trace.
 */
import { open } from "node:fs/promises";
import { pipeline } from "node:stream";
import type { Readable } from "node:stream";
import { createGunzip } from "node:zlib";
import { KeylaneError } from "../../errors.js";

/** RFC 1952: two magic bytes, then the only compression method there is. */
const GZIP = Buffer.from([0x1f, 0x8b, 0x08]);
const CHUNK_BYTES = 256 << 10;

/**
 * The object numbers of a trace, in order, a chunk at a time.
 *
 * @throws KeylaneError `KEYLANE_ERR_ARGUMENT` when the file cannot be read, is cut off, damaged or empty
 */
export async function* readTrace(file: string): AsyncGenerator<Uint32Array<ArrayBuffer>, void, void> {
  let rest: Buffer = Buffer.alloc(0);
  let bytes = 0;
  let source: Readable | undefined;
  try {
    source = await openBytes(file);
    for await (const chunk of source as AsyncIterable<Buffer>) {
      const whole = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
      const objects = new Uint32Array(whole.length >> 2);
      for (let i = 0; i < objects.length; i += 1) objects[i] = whole.readUInt32BE(i * 4);
      rest = whole.subarray(objects.length * 4);
      bytes += chunk.length;
      if (objects.length > 0) yield objects;
    }
  } catch (cause) {
    throw fault(file, `cannot be read: ${(cause as Error).message}`, cause);
  } finally {
    source?.destroy();
  }
  if (rest.length > 0) throw fault(file, `holds ${bytes} bytes, which is no whole number of 32-bit object numbers`);
  if (bytes === 0) throw fault(file, "holds no requests");
}

/** The file's bytes, decompressed where needed. */
async function openBytes(file: string): Promise<Readable> {
  const handle = await open(file, "r");
  try {
    const head = Buffer.alloc(GZIP.length);
    await handle.read(head, 0, head.length, 0);
    const raw = handle.createReadStream({ start: 0, highWaterMark: CHUNK_BYTES });
    if (!head.equals(GZIP)) return raw;
    // An error of either stream ends the pair and reaches whoever reads the second one.
    return pipeline(raw, createGunzip({ chunkSize: CHUNK_BYTES }), () => undefined);
  } catch (error) {
    await handle.close();
    throw error;
  }
}

function fault(file: string, what: string, cause?: unknown): KeylaneError {
  return new KeylaneError("KEYLANE_ERR_ARGUMENT", `the trace ${file} ${what}`, { cause });
}
