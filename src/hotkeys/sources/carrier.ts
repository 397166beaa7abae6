/**
 * One kind of place where documents lie. The invariant: it moves texts by holder, knows nothing of what is in them, and every
 * promise of it settles within its own timeout or when it is aborted.
 *
 * ```text
 * publish ──► SharedSource ──► Carrier: put, remove ──► folder │ Redis │ etcd │ Nacos │ Apollo
 * changed ◄── Roster ◄──────── Carrier: list, listen ◄──┘
 * ```
 */

/** What a carrier tells while it listens. */
export interface Feed {
  /** It listens now; what was missed before is looked up. */
  up(): void;
  /** Something changed; it is to be looked up. */
  look(): void;
  /** All documents, as they are now. */
  all(texts: ReadonlyMap<string, string | Error>): void;
  /** A holder's document, as it is now. */
  put(holder: string, text: string): void;
  /** A holder's document is gone. */
  remove(holder: string): void;
}

/** See above. */
export interface Carrier {
  /** Kind and place, without secrets. */
  readonly name: string;
  /** Longest document it takes, in bytes. */
  readonly maxBytes: number;
  /** After so many beats everything is looked up, whether or not something was heard. */
  readonly pollBeats: number;
  /** What must not be in any message: passwords and tokens as they are now. */
  secrets(): readonly string[];
  /** All documents by holder; an error in place of one that cannot be read. */
  list(signal: AbortSignal): Promise<ReadonlyMap<string, string | Error>>;
  /** Listens until aborted; returns or rejects when the connection is lost, and is then called again. */
  listen(feed: Feed, signal: AbortSignal): Promise<void>;
  /** Writes this process's document. */
  put(text: string, signal: AbortSignal): Promise<void>;
  /** Removes this process's document; not an error when there is none. */
  remove(signal: AbortSignal): Promise<void>;
  /** Removes the document of a process that has died, unless it has changed since. */
  sweep(holder: string, text: string, signal: AbortSignal): Promise<void>;
  /** Gives everything back. */
  close(): void;
}
