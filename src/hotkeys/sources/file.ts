/**
 * Hot keys in a folder: one JSON file per process, named after its holder. The invariant: a file is never seen half written,
 * since it is written beside and renamed. Changes are heard from the file system and, where that tells nothing (network file
 * systems), found by looking once a beat.
 *
 * ```text
 * <directory>/3f0c….json      a holder's document
 * <directory>/.3f0c….tmp      the same while it is written
 * ```
 */
import { constants, watch } from "node:fs";
import { mkdir, open, readdir, rename, unlink, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import type { SourceOf } from "../../options/hot-key-source.js";
import { untilAborted } from "./abort.js";
import type { Carrier, Feed } from "./carrier.js";
import { isHolder, MAX_DOCUMENT_BYTES } from "./document.js";

const SUFFIX = ".json";
/** More files than that are not a folder of ours. */
const MAX_FILES = 4096;

export class FileCarrier implements Carrier {
  readonly name: string;
  readonly maxBytes = MAX_DOCUMENT_BYTES;
  readonly pollBeats = 1;
  readonly #directory: string;
  readonly #own: string;
  readonly #beside: string;

  constructor(holder: string, { directory }: SourceOf<"file">) {
    this.name = `file ${directory}`;
    this.#directory = directory;
    this.#own = join(directory, holder + SUFFIX);
    this.#beside = join(directory, `.${holder}.tmp`);
  }

  secrets(): readonly string[] {
    return [];
  }

  async list(): Promise<ReadonlyMap<string, string | Error>> {
    const names = (await this.#made(() => readdir(this.#directory))).filter((name) => !name.startsWith("."));
    if (names.length > MAX_FILES) throw new Error(`there are more than ${MAX_FILES} files in it`);
    const texts = new Map<string, string | Error>();
    for (const name of names) {
      const holder = name.endsWith(SUFFIX) ? name.slice(0, -SUFFIX.length) : "";
      if (!isHolder(holder)) {
        texts.set(name, new Error("it is a foreign file"));
        continue;
      }
      const text = await readText(join(this.#directory, name));
      if (text !== null) texts.set(holder, text);
    }
    return texts;
  }

  async listen(feed: Feed, signal: AbortSignal): Promise<void> {
    const watcher = await this.#made(async () => watch(this.#directory, { persistent: false }));
    const { aborted, forget } = untilAborted(signal);
    try {
      const broken = new Promise<never>((_, reject) => {
        watcher.on("change", (event, name) => {
          // The folder itself was moved or removed: what is watched is not what is at the path any more.
          if (event === "rename" && name === basename(this.#directory)) reject(new Error("the folder is gone"));
          else if (name === null || !String(name).startsWith(".")) feed.look();
        });
        watcher.once("error", reject);
        watcher.once("close", () => reject(new Error("the folder is not watched any more")));
      });
      feed.up();
      await Promise.race([aborted, broken]);
    } finally {
      forget();
      watcher.close();
    }
  }

  async put(text: string): Promise<void> {
    await this.#made(() => writeFile(this.#beside, text));
    await rename(this.#beside, this.#own);
  }

  async remove(): Promise<void> {
    await gone(this.#beside);
    await gone(this.#own);
  }

  async sweep(holder: string, text: string): Promise<void> {
    const file = join(this.#directory, holder + SUFFIX);
    if ((await readText(file)) !== text) return;
    await gone(file);
    await gone(join(this.#directory, `.${holder}.tmp`));
  }

  close(): void {
    // Nothing is held.
  }

  /** Does it, and again after making the folder where that is what was missing. */
  async #made<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
      await mkdir(this.#directory, { recursive: true });
      return work();
    }
  }
}

/** The text of a regular file; null when it is gone, an error when it cannot be read. Links are not followed. */
async function readText(path: string): Promise<string | Error | null> {
  try {
    const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    try {
      const stat = await file.stat();
      if (!stat.isFile()) return new Error("it is no file");
      if (stat.size > MAX_DOCUMENT_BYTES) return new Error(`it is longer than ${MAX_DOCUMENT_BYTES} bytes`);
      const bytes = Buffer.alloc(stat.size);
      const { bytesRead } = await file.read(bytes, 0, stat.size, 0);
      return bytes.utf8Slice(0, bytesRead);
    } finally {
      await file.close();
    }
  } catch (error) {
    const { code = "" } = error as NodeJS.ErrnoException;
    return code === "ENOENT" ? null : new Error(`it cannot be read (${code})`);
  }
}

async function gone(path: string): Promise<void> {
  try {
    await unlink(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
  }
}
