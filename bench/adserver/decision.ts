/**
 * The choice of an ad, and the worker thread that makes it: the user's profile, then frequency caps. The invariant: an impression
 * that is decided twice, because a thread died meanwhile, gets the same ad and is counted once, since caps know it by its id.
 */
import { isMainThread, parentPort, workerData } from "node:worker_threads";
import { Keylane } from "keylane";
import type { Cap, KeylaneHandle } from "keylane";

/** What a worker is given. */
export interface DeciderData {
  readonly handle: KeylaneHandle;
  readonly via: "own" | "pool";
}

/** One ad request. */
export interface Ask {
  readonly n: number;
  readonly user: string;
  readonly impression: string;
}

/** Its answer: an ad, null when there is none for the user, or why it could not be decided. */
export interface Answer {
  readonly n: number;
  readonly ad?: Ad | null;
  readonly fault?: string;
}

/** An ad and what its impression costs, in minor units. */
export interface Ad {
  readonly campaign: number;
  readonly price: bigint;
}

/** What a profile under `up:` holds. */
export interface Profile {
  readonly interests: readonly string[];
}

interface Campaign extends Ad {
  readonly interest: string;
  readonly caps: readonly Cap[];
}

const INTERESTS = ["books", "music", "sports", "travel"] as const;
const HOUR_MS = 3_600_000;

/** Twelve campaigns, three of each interest. */
export const CAMPAIGNS: readonly Campaign[] = Array.from({ length: 12 }, (_, campaign) => ({
  campaign,
  price: BigInt(10 + campaign),
  interest: INTERESTS[campaign % INTERESTS.length],
  caps: [
    { name: `campaign:${campaign}`, limit: 2 + (campaign % 3), windowMs: HOUR_MS },
    { name: `creative:${campaign}`, limit: 5, windowMs: HOUR_MS, sliding: true },
  ],
}));

/** The first campaign for one of the user's interests whose caps have room. @throws KeylaneError when that cannot be told */
async function decide(lanes: Keylane, { user, impression }: Ask): Promise<Ad | null> {
  const profile = (await lanes.get(`up:${user}`)) as Profile | null;
  if (profile === null) return null;
  for (const { campaign, price, interest, caps } of CAMPAIGNS) {
    if (!profile.interests.includes(interest)) continue;
    const { allowed } = await lanes.caps.take(user, caps, { id: `${impression}:${campaign}` });
    if (allowed) return { campaign, price };
  }
  return null;
}

if (!isMainThread && (workerData as Partial<DeciderData> | null)?.handle !== undefined) {
  const { handle, via } = workerData as DeciderData;
  const lanes = (await Keylane.attach(handle, { via })) as Keylane;
  const answer = async (ask: Ask): Promise<void> => {
    const [{ value, reason }] = (await Promise.allSettled([decide(lanes, ask)])) as [
      { value?: Ad | null; reason?: Error },
    ];
    parentPort!.postMessage(value === undefined ? { n: ask.n, fault: String(reason) } : { n: ask.n, ad: value });
  };
  parentPort!.on("message", (ask: Ask | "close") => {
    // What is not decided by now has been refused already.
    if (ask === "close") void lanes.close({ timeoutMs: 100 }).then(() => parentPort!.close());
    else void answer(ask);
  });
  parentPort!.postMessage("ready");
}
