/**
 * Seeded random numbers, so that a demo's traffic repeats from run to run. The generator is xoshiro128** (Blackman and Vigna,
 * "Scrambled linear pseudorandom number generators", ACM TOMS 47(4), 2021); its state is filled by a 32-bit SplitMix (Steele,
 * Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014). The invariant: the state is never all zero.
 */

/** Uniform numbers; equal seeds give equal sequences. Not for secrets. */
export class Random {
  #a: number;
  #b: number;
  #c: number;
  #d: number;

  /** `seed` counts as a 32-bit integer. */
  constructor(seed: number) {
    let state = seed | 0;
    const word = (): number => mix32((state = (state + 0x9e3779b9) | 0));
    this.#a = word();
    this.#b = word();
    this.#c = word();
    this.#d = word() | 1;
  }

  /** A 32-bit unsigned integer. */
  word(): number {
    const b = this.#b;
    const scrambled = Math.imul(rotate(Math.imul(b, 5), 7), 9) >>> 0;
    this.#c ^= this.#a;
    this.#d ^= b;
    this.#b ^= this.#c;
    this.#a ^= this.#d;
    this.#c ^= b << 9;
    this.#d = rotate(this.#d, 11);
    return scrambled;
  }

  /** A number strictly between 0 and 1, one of 2^32. */
  unit(): number {
    return (this.word() + 0.5) / 2 ** 32;
  }
}

/** A bijection on 32-bit integers in which every input bit moves every output bit (the finalizer of MurmurHash3). */
export function mix32(value: number): number {
  let mixed = value;
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x85ebca6b);
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
  return (mixed ^ (mixed >>> 16)) >>> 0;
}

function rotate(value: number, bits: number): number {
  return (value << bits) | (value >>> (32 - bits));
}
