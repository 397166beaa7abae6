/**
 * Where copies of a hot key are put: each on another primary than the original and the other copies. A copy's name begins like
 * its original, so that it goes to the same domain, and holds a tag whose slot lives on the wanted node. The invariant: no name
 * is given twice, so that what a node may still hold under an older name is never read.
 *
 * ```text
 * up:{3f7a9k}~up:8812        prefix { tag } ~ whole key
 * ```
 */
import { randomInt } from "node:crypto";
import { native } from "../native/index.js";
import type { Router } from "../routing/router.js";
import type { Topology } from "../routing/topology.js";

/** Tags tried for the copies of a key: a node with a thousandth of the slots is found all but surely. */
const MOST_TRIES = 20_000;

/** One copy: its name, slot, and the node (by index) that it is put on. */
export interface Place {
  readonly name: string;
  readonly slot: number;
  readonly home: number;
}

/** The key's part before the tag; null when a tag behind it would not decide the slot. */
export function stemOf(key: string, router: Router): string | null {
  const stem = router.route(key).matched ?? "";
  return stem.includes("{") ? null : stem;
}

/** Whether a name is one that `Places` could have given a copy of `key`. */
export function isCopyOf(name: string, key: string, router: Router): boolean {
  const stem = stemOf(key, router);
  if (stem === null || !name.startsWith(`${stem}{`) || !name.endsWith(`}~${key}`)) return false;
  return /^[\da-z]{1,16}$/.test(name.slice(stem.length + 1, name.length - key.length - 2));
}

/** Nodes that serve slots. O(slots). */
export function primariesOf(topology: Topology): number[] {
  const owners = new Set(topology.slots);
  owners.delete(-1);
  return [...owners];
}

export class Places {
  readonly #router: Router;
  /** The next tag, as a number. Begins anywhere, so that two processes do not fill the same names. */
  #tag = randomInt(36 ** 5, 36 ** 6 - 1);

  constructor(router: Router) {
    this.#router = router;
  }

  /** One place on each of `homes` for a key of domain `domain`, as far as they are found. */
  find(key: string, domain: number, topology: Topology, homes: readonly number[]): Place[] {
    const stem = stemOf(key, this.#router);
    const wanted = new Set(homes);
    const found: Place[] = [];
    if (stem === null) return found;
    for (let tries = 0; tries < MOST_TRIES && wanted.size > 0; tries += 1) {
      this.#tag += 1;
      const tag = this.#tag.toString(36);
      const slot = native.slot(tag);
      const home = topology.nodeOf(slot);
      if (!wanted.has(home)) continue;
      const name = `${stem}{${tag}}~${key}`;
      // A longer prefix may claim the name, and without a prefix the slot decides.
      if (this.#router.domain(name) !== domain) continue;
      wanted.delete(home);
      found.push({ name, slot, home });
    }
    return found;
  }
}
