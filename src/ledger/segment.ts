/**
 * Segments of the spool: bytes that are appended to, frame by frame, and read in any place. On disk a frame is acknowledged when
 * the file is synced; what a failed append left is cut off again. In memory (mode `fast`) the same bytes live in one buffer.
 * The invariant: `size` is the end of the last whole frame, and nothing behind it counts.
 */
import { closeSync, fsyncSync, ftruncateSync, openSync, readSync, rmSync } from "node:fs";
import type { FileHandle } from "node:fs/promises";
import { open, rename } from "node:fs/promises";
import { join } from "node:path";

/** Bytes read at once around a record. */
const BLOCK = 64 << 10;

/** One segment. */
export interface Segment {
  readonly number: number;
  readonly size: number;
  /** An append failed and could not be undone: what it was to write may be there or not. */
  readonly torn: boolean;
  /** Appends a frame; resolves when it is as safe as the segment can make it. Rejects with the segment as it was, or `torn`. */
  append(frame: Buffer): Promise<void>;
  /** Bytes from `at`, at least `length` of them when there are as many; valid until the next `read`. */
  read(at: number, length: number): Buffer;
  /** No more is appended. */
  seal(): Promise<void>;
  /** Ends it; `remove` also removes what it holds. */
  close(remove: boolean): void;
}

/** A segment in memory. */
export class MemorySegment implements Segment {
  readonly number: number;
  readonly torn = false;
  size: number;
  #bytes: Buffer;

  constructor(number: number, head: Buffer) {
    this.number = number;
    this.#bytes = Buffer.from(head);
    this.size = head.length;
  }

  append(frame: Buffer): Promise<void> {
    const end = this.size + frame.length;
    if (end > this.#bytes.length) {
      const wider = Buffer.allocUnsafe(Math.max(end, this.#bytes.length * 2));
      this.#bytes.copy(wider, 0, 0, this.size);
      this.#bytes = wider;
    }
    frame.copy(this.#bytes, this.size);
    this.size = end;
    return Promise.resolve();
  }

  read(at: number): Buffer {
    return this.#bytes.subarray(at, this.size);
  }

  seal(): Promise<void> {
    return Promise.resolve();
  }

  close(): void {
    this.#bytes = Buffer.alloc(0);
    this.size = 0;
  }
}

/** Name of the file of segment `number`. */
export function segmentName(number: number): string {
  return `${String(number).padStart(10, "0")}.spool`;
}

/** A segment in a file. */
export class FileSegment implements Segment {
  readonly number: number;
  readonly path: string;
  size: number;
  torn = false;
  readonly #reader: number;
  #writer: FileHandle | null;
  #block = Buffer.alloc(0);
  #blockAt = 0;

  private constructor(number: number, path: string, size: number, writer: FileHandle | null) {
    this.number = number;
    this.path = path;
    this.size = size;
    this.#writer = writer;
    this.#reader = openSync(path, "r");
  }

  /** A new segment that begins with `head`; it is in the folder as a whole or not at all. */
  static async create(folder: string, number: number, head: Buffer): Promise<FileSegment> {
    const path = join(folder, segmentName(number));
    const draft = `${path}.new`;
    const writer = await open(draft, "w", 0o600);
    try {
      await writeAll(writer, head, 0);
      await writer.sync();
      await rename(draft, path);
      await syncFolder(folder);
      return new FileSegment(number, path, head.length, writer);
    } catch (error) {
      await writer.close();
      rmSync(draft, { force: true });
      throw error;
    }
  }

  /** An existing segment, to be read. */
  static existing(number: number, path: string, size: number): FileSegment {
    return new FileSegment(number, path, size, null);
  }

  async append(frame: Buffer): Promise<void> {
    const writer = this.#writer!;
    try {
      await writeAll(writer, frame, this.size);
      await writer.datasync();
    } catch (error) {
      this.torn = true;
      await writer.truncate(this.size);
      await writer.datasync();
      this.torn = false;
      throw error;
    }
    this.size += frame.length;
  }

  read(at: number, length: number): Buffer {
    const into = at - this.#blockAt;
    if (into >= 0 && into + length <= this.#block.length) return this.#block.subarray(into);
    const wanted = Math.min(Math.max(BLOCK, length), this.size - at);
    const block = Buffer.allocUnsafe(wanted);
    const got = readSync(this.#reader, block, 0, wanted, at);
    this.#block = block.subarray(0, got);
    this.#blockAt = at;
    return this.#block;
  }

  async seal(): Promise<void> {
    const writer = this.#writer;
    this.#writer = null;
    await writer?.close();
  }

  close(remove: boolean): void {
    closeSync(this.#reader);
    void this.#writer?.close().catch(() => undefined);
    this.#writer = null;
    if (remove) rmSync(this.path, { force: true });
  }
}

async function writeAll(file: FileHandle, bytes: Buffer, at: number): Promise<void> {
  for (let done = 0; done < bytes.length;) {
    const { bytesWritten } = await file.write(bytes, done, bytes.length - done, at + done);
    done += bytesWritten;
  }
}

/** Makes a folder's entries durable; systems that cannot open a folder do so by themselves. */
export async function syncFolder(folder: string): Promise<void> {
  if (process.platform === "win32") return;
  const handle = await open(folder, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Cuts a file to `size`, for good. */
export function cutFile(path: string, size: number): void {
  const file = openSync(path, "r+");
  try {
    ftruncateSync(file, size);
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
}
