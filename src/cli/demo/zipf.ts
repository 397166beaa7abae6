/**
 * Ranks drawn from a Zipf distribution: rank k of n comes up in proportion to k^-s, as users and ads do. The method is
 * rejection-inversion (Hörmann and Derflinger, "Rejection-inversion to generate variates from monotone discrete
 * distributions", ACM TOMACS 6(3), 1996): constant time and memory whatever n is, and no tables.
 *
 * ```text
 * h(x) = x^-s        H(x) = ∫ h        u uniform in [H(1.5) - h(1), H(n + ½)]        x = H⁻¹(u)        k = x rounded
 * accept k if it lies less than `#near` above x, or else if u ≥ H(k + ½) - h(k); draw again otherwise (seldom)
 * ```
 */
import type { Random } from "./random.js";

/** A sampler of ranks 1 … n. */
export class Zipf {
  readonly #random: Random;
  readonly #n: number;
  readonly #s: number;
  readonly #low: number;
  readonly #high: number;
  readonly #near: number;

  /** `n` ranks (1 or more), exponent `s` (above 0; 1 is the classic law). */
  constructor(random: Random, n: number, s: number) {
    this.#random = random;
    this.#n = n;
    this.#s = s;
    this.#low = this.#area(1.5) - 1;
    this.#high = this.#area(n + 0.5);
    this.#near = 2 - this.#point(this.#area(2.5) - this.#height(2));
  }

  /** The next rank. */
  next(): number {
    for (;;) {
      const u = this.#high + this.#random.unit() * (this.#low - this.#high);
      const x = this.#point(u);
      const k = Math.max(1, Math.min(this.#n, Math.round(x)));
      if (k - x <= this.#near || u >= this.#area(k + 0.5) - this.#height(k)) return k;
    }
  }

  #height(x: number): number {
    return x ** -this.#s;
  }

  /** H(x), with H(1) = 0; written so that nothing cancels when `s` is near 1. */
  #area(x: number): number {
    const power = 1 - this.#s;
    return power === 0 ? Math.log(x) : Math.expm1(power * Math.log(x)) / power;
  }

  #point(area: number): number {
    const power = 1 - this.#s;
    return Math.exp(power === 0 ? area : Math.log1p(area * power) / power);
  }
}
