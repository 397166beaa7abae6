/** What can be done about a hot key at the servers, as the loop sees it: copies of its value on other nodes. */

/** Copies of a key's value. */
export interface Copies {
  /** Full names of the keys that hold them. */
  readonly replicas: readonly string[];
  /** Index in the domain's topology of the node that each was put on. */
  readonly homes: readonly number[];
}

export const NO_COPIES: Copies = Object.freeze({ replicas: Object.freeze([]), homes: Object.freeze([]) });

export interface HotActions {
  /** Most copies that a key of the domain can have: one on each primary but its own; 0 where copies are no use. */
  most(domain: number): number;
  /**
   * Brings a key's copies up to date, so that there are `count` of them; `made` are those there are. Resolves with all there are
   * then. Called by one caller at a time for a key; when it rejects, it is called again after a while.
   */
  replicate(key: string, domain: number, count: number, made: Copies): Promise<Copies>;
  /** Whether `made` must be brought up to date: the topology changed. Called every window: O(copies). */
  outdated(key: string, domain: number, made: Copies): boolean;
  /** Copies that another process made. */
  adopt(domain: number, replicas: readonly string[]): Copies;
  /** Removes copies. They are in no thread's hot set any more. Never rejects. */
  release(key: string, domain: number, made: Copies): Promise<void>;
}
