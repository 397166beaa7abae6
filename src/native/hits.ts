/**
 * The addon's functions for hot keys as `HitsCore`: options become words, what arrives as JSON or as halves is put together. The
 * functions of the hot path are handed on as they are.
 */
import type { HitsCore, HitsOptions, HitsSession } from "./hits-types.js";

/** A session as the addon makes it. */
type Seat = Omit<HitsSession, "ownCells" | "cells" | "seatBytes" | "totals" | "merge"> & {
  describe(): string;
  totals(out: Int32Array): void;
  merge(nowUs: number, info: Int32Array): boolean;
};

/** What the addon exports for hot keys. */
export interface HitsAddon {
  hitsBytes(options: Int32Array): number;
  createHits(memory: Int32Array, options: Int32Array): Seat;
  attachHits(memory: Int32Array): Seat;
}

export function hitsOf(addon: HitsAddon): HitsCore {
  return {
    hitsBytes: (options) => addon.hitsBytes(optionWords(options)),
    createHits: (memory, options) => sessionOf(addon.createHits(memory, optionWords(options))),
    attachHits: (memory) => sessionOf(addon.attachHits(memory)),
  };
}

function sessionOf(seat: Seat): HitsSession {
  const description: Pick<HitsSession, "ownCells" | "cells" | "seatBytes"> = JSON.parse(seat.describe());
  return {
    ...description,
    record: seat.record,
    recordBytes: seat.recordBytes,
    recordFrames: seat.recordFrames,
    recordCounts: seat.recordCounts,
    name: seat.name,
    count: seat.count,
    totals: () => totalsOf(seat, description.cells),
    merge: (nowMs, info) => seat.merge(Math.round(nowMs * 1000), info),
    top: seat.top,
    end: seat.end,
  };
}

function totalsOf(seat: Seat, cells: number): Float64Array {
  const halves = new Int32Array(2 * cells);
  seat.totals(halves);
  return Float64Array.from({ length: cells }, (_, cell) => {
    return (halves[2 * cell + 1]! >>> 0) * 2 ** 32 + (halves[2 * cell]! >>> 0);
  });
}

/** `Options` in `crates/core/src/hits/layout.rs`; 0 is the default, -1 none. */
function optionWords({ maxThreads, sets, nameBytes, cells }: HitsOptions): Int32Array {
  return Int32Array.from([maxThreads, sets, nameBytes, cells], (option) => (option === 0 ? -1 : (option ?? 0)));
}
