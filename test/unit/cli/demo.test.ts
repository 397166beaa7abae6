/** The parts of the demo by themselves: random numbers, the Zipf law, the table of users, and the checks that must not be fooled. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { KeylaneError } from "keylane";
import { type AdLanes, countKey, isProfileOf, profileKey, profileOf } from "#dist/cli/demo/ads.js";
import { audit } from "#dist/cli/demo/audit.js";
import { overClients } from "#dist/cli/demo/over-ioredis.js";
import { load, play } from "#dist/cli/demo/play.js";
import { Random, mix32 } from "#dist/cli/demo/random.js";
import { closing, isClean } from "#dist/cli/demo/report.js";
import type { Traffic } from "#dist/cli/demo/traffic.js";
import { UserTable } from "#dist/cli/demo/users.js";
import { Zipf } from "#dist/cli/demo/zipf.js";

const MASK = 0xffff_ffffn;
const rotate = (x: bigint, n: bigint): bigint => ((x << n) | (x >> (32n - n))) & MASK;

/** xoshiro128** on big integers, after the paper's text; its state is filled as `Random` fills it. */
function* reference(seed: number): Generator<number> {
  const s = [1, 2, 3, 4].map((i) => BigInt(mix32((seed + i * 0x9e3779b9) | 0)));
  s[3] |= 1n;
  for (;;) {
    yield Number((rotate((s[1] * 5n) & MASK, 7n) * 9n) & MASK);
    const t = (s[1] << 9n) & MASK;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate(s[3], 11n);
  }
}

describe("random numbers of the demo", () => {
  it("are those of xoshiro128**, the same for the same seed", () => {
    for (const seed of [0, 1, 0x7fff_ffff, -1]) {
      const [random, model] = [new Random(seed), reference(seed)];
      for (let i = 0; i < 1000; i += 1) assert.equal(random.word(), model.next().value);
    }
    assert.notEqual(new Random(1).word(), new Random(2).word());
  });

  it("lie between 0 and 1, exclusive", () => {
    const random = new Random(7);
    for (let i = 0; i < 10_000; i += 1) {
      const u = random.unit();
      assert.ok(u > 0 && u < 1);
    }
  });

  it("are mixed by MurmurHash3's finalizer", () => {
    assert.deepEqual([mix32(0), mix32(1)], [0, 0x514e28b7]);
  });
});

describe("the Zipf sampler", () => {
  for (const [n, s] of [
    [1, 1],
    [2, 0.5],
    [10, 0.99],
    [10, 1],
    [50, 2],
    [1000, 1.2],
  ]) {
    it(`draws rank k of ${n} in proportion to k^-${s}`, () => {
      const draws = 200_000;
      const zipf = new Zipf(new Random(42), n, s);
      const seen = new Float64Array(n + 1);
      for (let i = 0; i < draws; i += 1) seen[zipf.next()] += 1;
      const weights = Array.from({ length: n }, (_, i) => (i + 1) ** -s);
      const sum = weights.reduce((total, weight) => total + weight, 0);
      for (const [i, weight] of weights.entries()) {
        const p = weight / sum;
        const sigma = Math.sqrt(draws * p * (1 - p));
        assert.ok(Math.abs(seen[i + 1] - draws * p) <= 5 * sigma + 1, `rank ${i + 1} came up ${seen[i + 1]} times`);
      }
      assert.equal(seen[0], 0);
    });
  }
});

describe("the table of users", () => {
  it("holds what a Map would", () => {
    const table = new UserTable();
    const model = new Map<number, number>();
    const random = new Random(3);
    for (let i = 0; i < 20_000; i += 1) {
      // Neighbours, multiples of a power of two, and the extremes.
      const user = [i % 700, ((i % 3000) * 65_536) % 2 ** 32, 2 ** 32 - 1 - (i % 5), random.word()][i % 4];
      table.add(user);
      model.set(user, (model.get(user) ?? 0) + 1);
      table.acknowledge(user);
    }
    assert.equal(table.size, model.size);
    const batches = [...table.batches(1000)];
    assert.ok(batches.slice(0, -1).every((batch) => batch.length === 1000));
    const held = batches.flat();
    assert.deepEqual(
      held.toSorted((a, b) => a - b),
      [...model.keys()].toSorted((a, b) => a - b),
    );
    for (const [user, count] of model) assert.equal(table.acknowledged(user), count);
    table.reset();
    assert.equal(table.size, model.size);
    for (const user of model.keys()) assert.equal(table.acknowledged(user), 0);
  });
});

describe("profiles", () => {
  it("are known by every field", () => {
    const right = profileOf(4_000_000_000);
    assert.equal(isProfileOf(4_000_000_000, JSON.parse(JSON.stringify(right))), true);
    assert.equal(isProfileOf(4_000_000_000, null), false);
    assert.equal(isProfileOf(5, right), false);
    const wrong = [
      { ...right, user: 1 },
      { ...right, campaign: right.campaign + 1 },
      { ...right, price: right.price + 1 },
      { ...right, segments: [] },
      { ...right, segments: [right.segments[0]] },
      { ...right, segments: [right.segments[0] + 1, right.segments[1]] },
      { ...right, segments: [right.segments[0], right.segments[1] + 1] },
      { ...right, segments: [...right.segments, 1] },
    ];
    for (const profile of wrong) assert.equal(isProfileOf(4_000_000_000, profile), false);
  });
});

const USERS = [1, 2, 3];

/** Requests of users 1, 2, 3, 1, 2, 3, …, `count` of them. */
function roundRobin(count: number): Traffic {
  const users = new UserTable();
  for (const user of USERS) users.add(user);
  return {
    kind: "trace",
    title: "round robin",
    users,
    requests: count,
    open() {
      let at = 0;
      return {
        next: () => (at < count ? USERS[at++ % USERS.length] : -1),
        more: () => Promise.resolve(false),
        close: () => Promise.resolve(),
      };
    },
  };
}

/** A keylane in memory, for as much of it as the demo uses. */
class MemoryLanes {
  readonly values = new Map<string, unknown>();
  readonly mortal = new Set<string>();
  commands = 0;

  async get(key: string): Promise<unknown> {
    this.commands += 1;
    return this.values.get(key) ?? null;
  }

  async getMany(keys: readonly string[]): Promise<unknown[]> {
    return Promise.all(keys.map((key) => this.get(key)));
  }

  async set(key: string, value: unknown): Promise<boolean> {
    this.values.set(key, value);
    return true;
  }

  async incrBy(key: string, amount = 1): Promise<number> {
    this.commands += 1;
    const sum = Number(this.values.get(key) ?? 0) + amount;
    this.values.set(key, sum);
    return sum;
  }

  async expire(key: string): Promise<boolean> {
    this.mortal.add(key);
    return true;
  }

  async ttl(key: string): Promise<number | null> {
    if (!this.values.has(key)) return null;
    return this.mortal.has(key) ? 1000 : Infinity;
  }

  stats(): object {
    return { domains: { all: { commands: this.commands } } };
  }
}

const NO_LIMITS = { seconds: Infinity, requests: Infinity };

async function playOn(memory: MemoryLanes, traffic: Traffic, limits = NO_LIMITS) {
  const lanes = memory as unknown as AdLanes;
  await load(lanes, traffic.users);
  const tally = await play(lanes, traffic, limits, () => undefined);
  return { name: "memory", tally, reached: 1, audit: await audit(lanes, traffic.users, tally.spend) };
}

/** The closing text of a run of one phase. */
function textOf(result: Awaited<ReturnType<typeof playOn>>): string {
  const traffic = { kind: "trace" as const, title: "", users: USERS.length, requests: result.tally.requests };
  return closing({ traffic, server: "none", core: "portable", phases: [result] });
}

describe("the demo's own checks", () => {
  it("find nothing when all is right", async () => {
    const result = await playOn(new MemoryLanes(), roundRobin(1000));
    assert.equal(isClean(result), true);
    assert.deepEqual([result.tally.requests, result.tally.right, result.tally.wrong], [1000, 1000, 0]);
    assert.equal(result.audit.impressions, 1000);
    assert.equal(result.tally.commands.get("all"), 3000);
    assert.match(textOf(result), /1,000 of 1,000 requests played/);
    assert.match(textOf(result), /all 1,000 values read were the values written/);
    assert.match(textOf(result), /all 1,003 exact/);
  });

  it("stop at the limit of requests", async () => {
    const result = await playOn(new MemoryLanes(), roundRobin(1000), { ...NO_LIMITS, requests: 7 });
    assert.deepEqual([result.tally.requests, result.audit.impressions], [7, 7]);
  });

  it("find a profile of another user, and one that is gone", async () => {
    class Wrong extends MemoryLanes {
      override async get(key: string): Promise<unknown> {
        if (key === profileKey(2)) return profileOf(3);
        return key === profileKey(3) ? null : super.get(key);
      }
    }
    const result = await playOn(new Wrong(), roundRobin(9));
    assert.equal(isClean(result), false);
    assert.deepEqual([result.tally.requests, result.tally.right, result.tally.wrong], [3, 3, 6]);
    assert.match(textOf(result), /6 of 9 values read were WRONG/);
    assert.ok(textOf(result).includes(`${profileKey(3)} holds ${JSON.stringify(profileOf(3))} but null was read`));
  });

  it("find a count too many, one too few, and a counter without an end", async () => {
    const [key] = USERS.map((user) => countKey(user, profileOf(user).campaign));
    class Doubling extends MemoryLanes {
      override async incrBy(name: string, amount = 1): Promise<number> {
        const sum = await super.incrBy(name, amount);
        return name === key && sum === 2 ? super.incrBy(name, amount) : sum;
      }
    }
    const twice = await playOn(new Doubling(), roundRobin(9));
    assert.equal(isClean(twice), false);
    assert.deepEqual(twice.audit.faults, [`${key} holds 4, acknowledged were 3`]);
    assert.match(textOf(twice), /1 of 1,003 NOT EXACT/);

    class Losing extends MemoryLanes {
      override async incrBy(name: string, amount = 1): Promise<number> {
        const sum = await super.incrBy(name, amount);
        if (name === key && sum === 2) this.values.set(name, 1);
        return sum;
      }
    }
    const lost = await playOn(new Losing(), roundRobin(6));
    assert.deepEqual(lost.audit.faults, [`${key} holds 1, acknowledged were 2`]);

    class Immortal extends MemoryLanes {
      override async expire(): Promise<boolean> {
        return true;
      }
    }
    const immortal = await playOn(new Immortal(), roundRobin(9));
    assert.equal(isClean(immortal), false);
    assert.deepEqual([immortal.audit.exact, immortal.audit.immortal], [1003, 3]);
    assert.match(textOf(immortal), /3 NEVER EXPIRE/);
  });

  it("count calls that fail and go on", async () => {
    class Failing extends MemoryLanes {
      override async incrBy(name: string, amount = 1): Promise<number> {
        if (!name.startsWith("fc:user_2:")) return super.incrBy(name, amount);
        throw new KeylaneError("KEYLANE_ERR_TIMEOUT", "INCRBY: no reply", { command: "INCRBY" });
      }
    }
    const result = await playOn(new Failing(), roundRobin(9));
    assert.equal(isClean(result), false);
    assert.deepEqual([result.tally.requests, result.tally.failed, result.tally.right], [6, 3, 9]);
    assert.equal(result.audit.exact, result.audit.counters);
    assert.match(textOf(result), /3 ad requests FAILED/);
    assert.match(textOf(result), /INCRBY: no reply \(KEYLANE_ERR_TIMEOUT, outcome unknown\)/);
  });

  it("end with an error that is not a call's", async () => {
    const traffic = roundRobin(9);
    const broken: Traffic = {
      ...traffic,
      open: () => ({ ...traffic.open(), next: () => -1, more: () => Promise.reject(new Error("the trace broke")) }),
    };
    await assert.rejects(playOn(new MemoryLanes(), broken), /the trace broke/);
  });
});

/** An ioredis client in memory, for as much of it as the demo uses. */
class MemoryClient {
  readonly options: { enableAutoPipelining?: boolean } = {};
  readonly values = new Map<string, string>();
  readonly lives = new Map<string, number>();

  async get(key: string): Promise<string | null> {
    return this.values.get(key) ?? null;
  }

  async set(key: string, value: string): Promise<"OK"> {
    this.values.set(key, value);
    return "OK";
  }

  async incrby(key: string, amount: number): Promise<number> {
    const sum = Number(this.values.get(key) ?? 0) + amount;
    this.values.set(key, String(sum));
    return sum;
  }

  async pexpire(key: string, ms: number): Promise<number> {
    if (!this.values.has(key)) return 0;
    this.lives.set(key, ms);
    return 1;
  }

  async pttl(key: string): Promise<number> {
    return this.values.has(key) ? (this.lives.get(key) ?? -1) : -2;
  }
}

const openClients = () => {
  const clients = {
    user_profile: new MemoryClient(),
    freq_control: new MemoryClient(),
    realtime_billing: new MemoryClient(),
  };
  return { clients, lanes: overClients(clients as never) };
};

describe("the demo over ioredis", () => {
  it("sends each prefix to its client, with autopipelining, and counts the commands", async () => {
    const { clients, lanes } = openClients();
    assert.deepEqual(
      Object.values(clients).map(({ options }) => options.enableAutoPipelining),
      [true, true, true],
    );
    assert.equal(await lanes.set("up:user_1", profileOf(1)), true);
    assert.deepEqual(await lanes.get("up:user_1"), profileOf(1));
    assert.equal(await lanes.get("up:user_2"), null);
    assert.equal(await lanes.ttl("fc:user_1:campaign_2"), null);
    assert.equal(await lanes.expire("fc:user_1:campaign_2", 1000), false);
    assert.equal(await lanes.incrBy("fc:user_1:campaign_2"), 1);
    assert.equal(await lanes.ttl("fc:user_1:campaign_2"), Infinity);
    assert.equal(await lanes.expire("fc:user_1:campaign_2", 1000), true);
    assert.equal(await lanes.ttl("fc:user_1:campaign_2"), 1000);
    assert.equal(await lanes.incrBy("rb:campaign_2", 70), 70);
    assert.deepEqual(await lanes.getMany(["rb:campaign_2", "fc:user_1:campaign_2", "rb:campaign_3"]), [
      "70",
      "1",
      null,
    ]);
    assert.deepEqual([...clients.user_profile.values.keys()], ["up:user_1"]);
    assert.deepEqual([...clients.freq_control.values.keys()], ["fc:user_1:campaign_2"]);
    assert.deepEqual([...clients.realtime_billing.values.keys()], ["rb:campaign_2"]);
    assert.deepEqual(lanes.stats().domains, {
      user_profile: { commands: 3 },
      freq_control: { commands: 7 },
      realtime_billing: { commands: 3 },
    });
  });

  it("comes to the same counters as keylane", async () => {
    const traffic = roundRobin(1000);
    const { lanes } = openClients();
    await load(lanes, traffic.users);
    const tally = await play(lanes, traffic, NO_LIMITS, () => undefined);
    const found = await audit(lanes, traffic.users, tally.spend);
    const other = await playOn(new MemoryLanes(), roundRobin(1000));
    assert.equal(isClean({ name: "ioredis", tally, reached: 1, audit: found }), true);
    assert.deepEqual([found.impressions, found.spend], [other.audit.impressions, other.audit.spend]);
  });
});
