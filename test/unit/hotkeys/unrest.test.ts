/** How often a key changes, on a clock of the test's own. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";

import { Unrest } from "#dist/hotkeys/unrest.js";

/** A key that changes `apart` milliseconds after it was read, and is read again `deaf` milliseconds after that. */
class Watched {
  readonly unrest = new Unrest();
  now = 1000;

  read(): void {
    this.unrest.asked();
    this.unrest.answered(this.now);
  }

  /** Looks every 10 ms until it is steady, `mostMs` at most. Gives how long that took. */
  listen(mostMs: number): number {
    for (let ms = 0; ms <= mostMs; ms += 10, this.now += 10) if (this.unrest.steady(this.now)) return ms;
    return Infinity;
  }

  /** Changes until there were too many, `most` at most. Gives how many that took. */
  changes(most: number, apart: number, deaf: number): number {
    for (let done = 1; done <= most; done += 1) {
      this.read();
      this.now += apart;
      if (this.unrest.changed(this.now)) return done;
      this.now += deaf;
    }
    return Infinity;
  }
}

describe("unrest", () => {
  it("20 changes in a second that was listened are too many, however long the rounds take", () => {
    assert.equal(new Watched().changes(1000, 0, 10), 20);
    assert.equal(new Watched().changes(1000, 50, 0), 20);
    assert.equal(new Watched().changes(1000, 1, 2000), 20);
    assert.equal(new Watched().changes(1000, 53, 0), Infinity);
    assert.equal(new Watched().changes(1000, 60, 2000), Infinity);
  });

  it("a key that has been calm is noticed as soon", () => {
    const key = new Watched();
    key.read();
    key.now += 60_000;
    assert.equal(key.changes(1000, 0.1, 10), 20);
  });

  it("is steady after 250 ms without a change, later with some, and not at 20 a second", () => {
    const calm = new Watched();
    assert.equal(calm.listen(1000), Infinity, "not read yet");
    calm.read();
    assert.equal(calm.listen(1000), 250);
    const some = new Watched();
    some.changes(6, 0, 100);
    some.read();
    assert.equal(some.listen(1000), 310, "more than 300 ms for 6 changes");
    const much = new Watched();
    for (let i = 0; i < 100; i += 1) {
      much.read();
      assert.equal(much.listen(30), Infinity);
      much.unrest.changed(much.now);
    }
  });

  it("a thread that stood still has not listened", () => {
    const key = new Watched();
    key.read();
    assert.equal(key.unrest.steady(key.now), false);
    key.now += 10_000;
    assert.equal(key.listen(1000), 230, "it counts for 25 ms");
  });

  it("hears nothing between a change and the answer to the next read", () => {
    const { unrest } = new Watched();
    assert.equal(unrest.deaf, true);
    unrest.asked();
    assert.equal(unrest.deaf, true);
    unrest.answered(0);
    assert.equal(unrest.deaf, false);
    unrest.changed(10);
    assert.equal(unrest.deaf, true);
    for (let now = 20; now < 10_000; now += 20) assert.equal(unrest.steady(now), false);
    unrest.asked();
    unrest.changed(10_001);
    unrest.answered(10_002);
    assert.equal(unrest.deaf, true, "told before the answer that it was for");
    unrest.asked();
    unrest.answered(10_010);
    unrest.lost(10_100);
    assert.equal(unrest.deaf, true, "so is what a connection that was lost would have told");
  });
});
