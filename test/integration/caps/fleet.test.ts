/** Denials in one process, counts given back by another. */
import assert from "node:assert/strict";
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { describe, it, type TestContext } from "node:test";
import type { Cap, Keylane, OpenOptions } from "keylane";
import { nativeInfo } from "keylane";
import type { FleetRequest } from "../../support/caps-process.js";
import { capsOptions } from "../../support/caps.js";
import { useC3 } from "../../support/fixtures.js";
import { openLanes } from "../../support/lanes.js";
import { until } from "../../support/until.js";

const HOUR = 3_600_000;
const list: readonly Cap[] = [{ name: "a", limit: 1, windowMs: HOUR }];

/** Another process with the same options; gives its answers one by one. */
async function another(t: TestContext, options: OpenOptions): Promise<(request: FleetRequest) => Promise<unknown>> {
  const child: ChildProcess = fork(new URL("../../support/caps-process.js", import.meta.url));
  t.after(() => child.kill("SIGKILL"));
  child.send(options);
  await once(child, "message");
  return async (request) => {
    child.send(request);
    return ((await once(child, "message")) as [unknown])[0];
  };
}

/** Has the one process deny a user for what the other one counted. */
async function denied(lanes: Keylane, ask: (request: FleetRequest) => Promise<unknown>, user: string): Promise<void> {
  await ask({ call: "take", user, caps: list, id: "1" });
  await until(async () => (await lanes.caps.take(user, list, { id: "2" })).source === "cache");
}

const heard = (lanes: Keylane, user: string): Promise<unknown> =>
  until(async () => (await lanes.caps.take(user, list, { id: "2" })).allowed);

describe("caps in a fleet", () => {
  const c3 = useC3();

  it("a refund is heard of at once where the domain is cached", async (t) => {
    const options: OpenOptions = {
      domains: { freq: { prefixes: ["fc:"], nodes: c3.value.seeds, cache: { mode: "all" } } },
      // Without the Rust core nothing is cached.
      caps: { denialMs: nativeInfo().kind === "rust" ? HOUR : 300 },
    };
    const lanes = await openLanes(options);
    const ask = await another(t, options);
    await denied(lanes, ask, "tracked");
    assert.equal(await ask({ call: "refund", user: "tracked", caps: list, id: "1" }), true);
    await heard(lanes, "tracked");
    await ask({ call: "reserve", user: "held", caps: list, id: "1" });
    await until(async () => (await lanes.caps.take("held", list, { id: "2" })).source === "cache");
    assert.equal(await ask({ call: "release", user: "held", caps: list, id: "1" }), true);
    await heard(lanes, "held");
  });

  it("elsewhere a denial that a refund may end is asked again after denialMs; others stand", async (t) => {
    const options = capsOptions(c3.value.seeds, { denialMs: 300 });
    const lanes = await openLanes(options);
    const ask = await another(t, options);
    await lanes.caps.take("final", list);
    await until(async () => (await lanes.caps.take("final", list)).source === "cache");
    await denied(lanes, ask, "doubted");
    assert.equal(await ask({ call: "refund", user: "doubted", caps: list, id: "1" }), true);
    await heard(lanes, "doubted");
    const { source, caps } = await lanes.caps.take("final", list);
    assert.deepEqual([source, caps[0]!.used], ["cache", 1], "nobody can give it back: no id is remembered");
  });
});
