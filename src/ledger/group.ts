/** Records that share a frame of the spool, and one promise: that of the sync they wait for. */
import type { KeylaneError } from "../errors.js";
import { FrameWriter } from "./frame.js";
import type { Line } from "./line.js";

/** What a journal must hear of: an impression, which is an entry too, or a denial. */
export interface Marked {
  readonly kind: number;
  readonly id: string;
  /** Offset in the frame. */
  readonly offset: number;
  readonly more: string;
}

/** Records under way to the disk. */
export class Group {
  readonly frame = new FrameWriter();
  readonly lines: Line[] = [];
  readonly offsets: number[] = [];
  readonly seqs: number[] = [];
  readonly amounts: bigint[] = [];
  readonly budgets: string[] = [];
  readonly marked: Marked[] = [];
  /** Records taken, entries or not. */
  taken = 0;
  resolve!: () => void;
  reject!: (error: KeylaneError) => void;
  readonly promise = new Promise<void>((resolve, reject) => {
    this.resolve = resolve;
    this.reject = reject;
  });
}
