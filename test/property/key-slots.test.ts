/**
 * Slots of very many random keys: Rust, portable and, for one key in fifty, a real server's CLUSTER KEYSLOT.
 * `KEYLANE_SLOT_KEYS` sets how many (100,000 by default); the keys are the same in every run of one size.
 */
import assert from "node:assert/strict";
import { test } from "node:test";

import { RespClient, startCluster } from "keylane/sandbox";

import { portable, rust } from "../unit/native/cores.js";

const KEYS = Number(process.env["KEYLANE_SLOT_KEYS"] ?? 100_000);
const PER_SERVER_KEY = 50;
const WINDOW = 500;

/** Uniform integers below `bound`, from a seed (mulberry32). */
function randomFrom(seed: number): (bound: number) => number {
  let state = seed;
  return (bound) => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 0x1_0000_0000) * bound);
  };
}

const BRACES = ["{", "}", "{}", "}{", "{{", "}}", "{a}", "{é}", "{}{", "{\0}"];
const WORDS = ["up:", "user", "fc", ":", "42", "é", "日本", "😀", " ", "\0", "\r\n", "\ud800", "\udc00"];

/** A key of one of five kinds: text, text with braces, bytes, bytes rich in braces, a long key with a few braces. */
function randomKey(below: (bound: number) => number): string | Uint8Array {
  const kind = below(5);
  if (kind < 2) {
    let text = "";
    for (let parts = below(8); parts > 0; parts--) {
      const braces = kind === 1 && below(2) === 0;
      const from = braces ? BRACES : WORDS;
      text += below(4) === 0 ? String.fromCodePoint(below(0x11_0000)) : from[below(from.length)];
    }
    return text;
  }
  const bytes = new Uint8Array(kind === 4 ? below(300) : below(40));
  for (let at = 0; at < bytes.length; at++) bytes[at] = below(256);
  for (let braces = kind === 2 ? 0 : below(6); braces > 0 && bytes.length > 0; braces--) {
    bytes[below(bytes.length)] = below(2) === 0 ? 0x7b : 0x7d;
  }
  return bytes;
}

const show = (key: string | Uint8Array): string => Buffer.from(key as string).toString("hex");

test(`${KEYS} random keys have the same slot in Rust and portable`, () => {
  const below = randomFrom(1);
  const seen = new Uint8Array(16_384);
  for (let i = 0; i < KEYS; i++) {
    const key = randomKey(below);
    const slot = rust.slot(key);
    if (portable.slot(key) !== slot) assert.fail(`${show(key)}: ${portable.slot(key)} in portable, ${slot} in Rust`);
    seen[slot] = 1;
  }
  const covered = seen.reduce((sum, one) => sum + one, 0);
  if (KEYS >= 100_000) assert.ok(covered > 15_000, `only ${covered} slots were seen`);
});

test(`${KEYS / PER_SERVER_KEY} random keys have the slot that a server gives them`, async () => {
  await using cluster = await startCluster({ primaries: 1 });
  const { host, port } = cluster.primaries[0];
  const client = await RespClient.connect({ host, port });
  const below = randomFrom(2);
  for (let left = Math.floor(KEYS / PER_SERVER_KEY); left > 0; left -= WINDOW) {
    const keys = Array.from({ length: Math.min(WINDOW, left) }, () => randomKey(below));
    const slots = await Promise.all(keys.map((key) => client.command("CLUSTER", "KEYSLOT", key)));
    for (const [i, key] of keys.entries()) {
      assert.equal(rust.slot(key), slots[i], `${show(key)} in Rust`);
      assert.equal(portable.slot(key), slots[i], `${show(key)} in portable`);
    }
  }
  client.close();
});
