/**
 * The order of play: contestants take one round each in turn, A B C, B C A, C A B, so that a slow minute of the machine
 * falls on all of them and none always follows the same one. Warm-up rounds go the same way and are thrown away.
 */

/** Rounds played and discarded before the ones that count. */
export const WARMUP_ROUNDS = 1;

/** The contestants' indices in the order of round `round` (0, 1, …). */
export function playOrder(contestants: number, round: number): number[] {
  return Array.from({ length: contestants }, (_, i) => (i + round) % contestants);
}

/**
 * Plays `rounds` counted rounds, one contestant at a time, and gives each one's samples in order of play.
 * `play(i)` runs one round of contestant `i`; the first failure ends the whole run.
 */
export async function interleave<S>(
  contestants: number,
  rounds: number,
  play: (contestant: number) => S | Promise<S>,
): Promise<S[][]> {
  const samples: S[][] = Array.from({ length: contestants }, () => []);
  for (let round = 0; round < WARMUP_ROUNDS + rounds; round += 1) {
    for (const contestant of playOrder(contestants, round)) {
      const sample = await play(contestant);
      if (round >= WARMUP_ROUNDS) samples[contestant].push(sample);
    }
  }
  return samples;
}
