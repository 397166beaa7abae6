/** HOTKEYS and CLUSTER SLOT-STATS as newer servers answer them, in every shape; the servers are scripted. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { findOnStub, names } from "../../support/hotkeys.js";
import { rejection } from "../../support/lanes.js";
import { failure, fields, OK, Stub, type StubCall, type StubReply } from "../../support/stub.js";

/** A server that has HOTKEYS. */
async function hotkeysServer(info: string, answer: (call: StubCall) => StubReply): Promise<Stub> {
  const stub = await Stub.start();
  stub.answer("INFO", () => `${info}\r\nloading:0\r\nmaxmemory_policy:noeviction\r\n`);
  stub.answer("COMMAND INFO", () => [["hotkeys", -2, [], 0, 0, 0], null]);
  return stub.answer("HOTKEYS", answer);
}

/** The session of a scripted Redis. */
class Session {
  began = 0;
  active = false;
  readonly log: string[] = [];

  /** `wrap` gives the reply its shape. */
  answer(wrap: (report: Record<string, StubReply>) => StubReply): (call: StubCall) => StubReply {
    return ({ args }) => {
      const [verb, ...rest] = args.slice(1).map(String) as [string, ...string[]];
      this.log.push([verb, ...rest].join(" "));
      if (verb === "GET") return this.began === 0 ? null : wrap(this.#report());
      if (verb === "START" && this.active) return failure("ERR hotkey tracking session already in progress");
      if (verb === "START") [this.began, this.active] = [this.began + 1000, true];
      else if (verb === "STOP") this.active = false;
      else this.began = 0;
      return OK;
    };
  }

  #report(): Record<string, StubReply> {
    return {
      "tracking-active": Number(this.active),
      "sample-ratio": 1,
      "selected-slots": [[0, 16_383]],
      "collection-start-time-unix-ms": this.began,
      "collection-duration-ms": 1001,
      "by-cpu-time-us": ["a", 104, "b", 98],
      "by-net-bytes": ["b", 7000, Buffer.from([0xff, 0]), 50],
    };
  }
}

describe("HOTKEYS of Redis", () => {
  const shapes: [string, (report: Record<string, StubReply>) => StubReply][] = [
    ["names and values", fields],
    ["a list of names and values", (report) => [fields(report)]],
    ["flat under RESP3", (report) => Object.entries(report).flat()],
  ];
  for (const [shape, wrap] of shapes) {
    it(`is started for a bounded time, read and released: ${shape}`, async () => {
      const session = new Session();
      await using stub = disposable(await hotkeysServer("redis_version:8.6.0", session.answer(wrap)));
      const found = await findOnStub(stub.value, { top: 100 });
      assert.deepEqual(session.log, [
        "START METRICS 2 CPU NET COUNT 64 DURATION 6",
        "GET",
        "GET",
        "GET",
        "STOP",
        "RESET",
      ]);
      assert.deepEqual(
        found.keys.map(({ key, cpuMicros, bytes, finder }) => [key.toString("latin1"), cpuMicros, bytes, finder]),
        [
          ["a", 104, undefined, "hotkeys-redis"],
          ["b", 98, 7000, "hotkeys-redis"],
          ["\u00ff\u0000", undefined, 50, "hotkeys-redis"],
        ],
      );
      assert.deepEqual([found.nodes[0]!.server, found.nodes[0]!.watchedMs], ["redis 8.6.0", 1001]);
    });
  }

  it("is read where someone else has a session, which goes on", async () => {
    const session = new Session();
    [session.began, session.active] = [500, true];
    await using stub = disposable(await hotkeysServer("redis_version:8.6.0", session.answer(fields)));
    const found = await findOnStub(stub.value);
    assert.deepEqual(names(found.keys).slice(0, 2), ["a", "b"]);
    assert.match(found.nodes[0]!.notes.join(), /someone else/);
    assert.ok(session.active && !session.log.includes("STOP") && !session.log.includes("RESET"));
  });

  it("is stopped at an abort, unless another session has begun since", async () => {
    for (const replaced of [false, true]) {
      const session = new Session();
      await using stub = disposable(await hotkeysServer("redis_version:8.6.0", session.answer(fields)));
      const abort = new AbortController();
      const progress = (): void => {
        if (replaced) session.began += 1;
        abort.abort();
      };
      await rejection(findOnStub(stub.value, { seconds: 60, signal: abort.signal, progress }), "KEYLANE_ERR_ABORTED");
      assert.equal(session.active, replaced);
    }
  });

  it("is left for OBJECT FREQ when it is refused, and both reasons are told", async () => {
    const denied = failure("NOPERM this user has no permissions to run the 'hotkeys|start' command");
    await using stub = disposable(await hotkeysServer("redis_version:8.6.0", () => denied));
    const [node] = (await findOnStub(stub.value)).nodes;
    assert.match(node!.notes.join(), /NOPERM/);
    assert.match(node!.refused!.message, /maxmemory-policy is noeviction/);
  });

  it("is known by the version where COMMAND INFO may not be asked", async () => {
    for (const [version, has] of [
      ["8.10.1", true],
      ["8.6.0", true],
      ["8.4.9", false],
      ["7.2.0", false],
    ] as const) {
      const session = new Session();
      // A session that is already there is read at once.
      [session.began, session.active] = [500, true];
      await using stub = disposable(await hotkeysServer(`redis_version:${version}`, session.answer(fields)));
      stub.value.answer("COMMAND INFO", () =>
        failure("NOPERM this user has no permissions to run the 'command|info' command"),
      );
      const [node] = (await findOnStub(stub.value)).nodes;
      assert.equal(node!.finder, has ? "hotkeys-redis" : null, version);
    }
  });
});

const row = (key: string, qps: number): StubReply => fields({ key, db: 0, qps });

describe("HOTKEYS of Valkey", () => {
  const VALKEY = "redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:9.2.0";

  it("gives the last whole window, and is waited for while there is none", async () => {
    const windows: StubReply[] = [[], [row("x", 9000), row("y", 12)]];
    let at = 0;
    await using stub = disposable(await hotkeysServer(VALKEY, () => windows[Math.min(at++, 1)]));
    const settings = { "hotkeys-top-k": "16", "hotkeys-window-seconds": "2", "hotkeys-sampling-percentage": "1" };
    stub.value.answer("CONFIG GET", ({ args }) => (String(args[2]).startsWith("hotkeys") ? fields(settings) : []));
    const found = await findOnStub(stub.value);
    assert.deepEqual(
      found.keys.map(({ key, perSecond, finder }) => [key.toString(), perSecond, finder]),
      [
        ["x", 9000, "hotkeys-valkey"],
        ["y", 12, "hotkeys-valkey"],
      ],
    );
    const [node] = found.nodes;
    assert.deepEqual([node!.server, node!.watchedMs, at], ["valkey 9.2.0", 2000, 2]);
    assert.match(node!.notes.join(), /estimates from 1 %/);
    assert.ok(
      stub.value.log.every(({ name }) => name !== "CONFIG SET"),
      "nothing was changed",
    );
  });

  it("is refused where it is off, and turned on and off again when that is wished, also at an abort", async () => {
    const config = new Map([
      ["hotkeys-top-k", "0"],
      ["hotkeys-window-seconds", "10"],
    ]);
    const on = (): boolean => config.get("hotkeys-top-k") !== "0";
    const answer = (): StubReply => (on() ? [row("x", Number(config.get("hotkeys-window-seconds")))] : []);
    await using stub = disposable(await hotkeysServer(VALKEY, answer));
    stub.value.answer("CONFIG GET", ({ args }) =>
      String(args[2]).startsWith("hotkeys") ? fields(Object.fromEntries(config)) : [],
    );
    stub.value.answer("CONFIG SET", ({ args }) => {
      config.set(String(args[2]), String(args[3]));
      return OK;
    });
    const before = [...config];
    const [off] = (await findOnStub(stub.value)).nodes;
    assert.deepEqual([off!.finder, off!.refused?.code], [null, "KEYLANE_ERR_UNSUPPORTED"]);
    assert.match(off!.notes.join(), /HOTKEYS is off/);

    const found = await findOnStub(stub.value, { enable: true });
    assert.deepEqual(
      found.keys.map(({ perSecond }) => perSecond),
      [1],
      "its window was as long as the search",
    );
    assert.deepEqual([...config], before);

    const abort = new AbortController();
    const seen: boolean[] = [];
    const progress = (): void => {
      seen.push(on());
      abort.abort();
    };
    const running = findOnStub(stub.value, { enable: true, seconds: 60, signal: abort.signal, progress });
    await rejection(running, "KEYLANE_ERR_ABORTED");
    assert.ok(seen[0]);
    assert.deepEqual([...config], before);
  });
});

const stats = (cpu: number, more: number): StubReply =>
  fields({ "key-count": 3, "cpu-usec": cpu, "network-bytes-in": more, "network-bytes-out": more * 2 });

async function slotServer(rows: (call: StubCall) => StubReply): Promise<Stub> {
  const stub = await Stub.start();
  stub.answer("INFO", () => "redis_version:8.2.0\r\nloading:0\r\nmaxmemory_policy:noeviction\r\n");
  stub.answer("COMMAND INFO", () => [null, ["cluster|slot-stats", -4, [], 0, 0, 0]]);
  return stub.answer("CLUSTER SLOT-STATS", rows);
}

const twoReadings = ({ calls }: StubCall): StubReply =>
  calls === 1
    ? [
        [0, stats(9e9, 9e9)],
        [1, stats(10, 0)],
        [2, stats(10, 0)],
        [3, stats(500, 5)],
      ]
    : [
        [0, stats(9e9, 9e9)],
        [1, stats(10_010, 100)],
        [2, stats(500_010, 900)],
        [3, stats(1, 0)],
        [4, stats(7, 7)],
      ];

describe("CLUSTER SLOT-STATS", () => {
  it("tells which slots had a load meanwhile, not which ever had one", async () => {
    await using stub = disposable(await slotServer(twoReadings));
    const found = await findOnStub(stub.value);
    assert.deepEqual(
      found.slots.map(({ slot, keys }) => [slot, keys]),
      [
        [2, 3],
        [1, 3],
      ],
    );
    const [hot] = found.slots;
    assert.ok(hot!.cpuShare > 0 && hot!.cpuShare <= 0.5 && hot!.bytesOut > hot!.bytesIn && hot!.bytesIn > 0);
    assert.equal(found.nodes[0]!.refused?.code, "KEYLANE_ERR_UNSUPPORTED", "its keys are not known by that");
  });

  it("says why where the server counts keys only", async () => {
    await using stub = disposable(await slotServer(() => [[0, fields({ "key-count": 1 })]]));
    const [node] = (await findOnStub(stub.value)).nodes;
    assert.equal(node!.slots, null);
    assert.match(node!.notes.join(), /cluster-slot-stats-enabled/);
  });
});

function disposable(value: Stub): AsyncDisposable & { readonly value: Stub } {
  return { value, [Symbol.asyncDispose]: () => value.stop() };
}
