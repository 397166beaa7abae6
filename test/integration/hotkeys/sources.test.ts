/** What every kind of source does, whatever is behind it: the same list of tests for each. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { KeylaneError } from "keylane";
import { useFixture } from "../../support/fixtures.js";
import { BEAT_MS, hot, Party } from "../../support/hot-sources/party.js";
import { PLACES } from "../../support/hot-sources/places.js";
import { until } from "../../support/until.js";

describe("hot key sources, side by side", { concurrency: true }, () => {
  for (const [kind, start] of PLACES) {
    describe(`hot key source: ${kind}`, { concurrency: 1 }, () => {
      const place = useFixture(start, (one) => one.stop());
      const empty = (): Promise<unknown> =>
        until(async () => (await place.value.entries()).size === 0, { what: `nothing left in ${kind}` });
      const join = (): Promise<Party> => Party.join(place.value.options);

      test("what one process says the other hears, in full, until it takes it back", async () => {
        const [a, b] = await Promise.all([join(), join()]);
        const first = hot("up:1", { rate: 31_000.4, replicas: ["up:1{r1}", "up:1{r2}"] });
        a.source.publish([hot("up:ü 2", { level: "warn", rate: 6000 }), first]);
        await b.hears("up:1", "up:ü 2");
        assert.deepEqual(b.others, [{ ...first, rate: 31_000 }, hot("up:ü 2", { level: "warn", rate: 6000 })]);
        assert.deepEqual(a.others, []);
        b.say("up:3");
        await a.hears("up:3");
        a.say("up:1");
        await b.hears("up:1");
        a.say();
        await b.hears();
        b.say();
        await a.hears();
        await empty();
        assert.deepEqual([...a.troubles, ...b.troubles], []);
      });

      test("one that comes later hears what was said before, and one that stops takes its word back", async () => {
        const a = await join();
        a.say("up:1", "up:2");
        await until(async () => (await place.value.entries()).size === 1);
        const b = await join();
        await b.hears("up:1", "up:2");
        await a.source.stop(2000);
        await b.hears();
        await empty();
        assert.deepEqual(b.troubles, []);
      });

      test("one that dies is dropped after its silence, and what it left is swept away", async () => {
        const [a, b] = await Promise.all([join(), join()]);
        a.say("up:1");
        await b.hears("up:1");
        // It is alive for as long as it beats.
        const before = (await place.value.entries()).get(a.source.holder);
        await until(async () => (await place.value.entries()).get(a.source.holder) !== before);
        assert.equal(b.heard(), "up:1");
        const died = performance.now();
        await a.die();
        assert.equal((await place.value.entries()).has(a.source.holder), true);
        await b.hears();
        assert.ok(performance.now() - died > BEAT_MS, "not sooner than its next beat was due");
        await empty();
        assert.deepEqual(b.troubles, []);
      });

      test("down and back: told once each way, and nothing that was said meanwhile is lost", async () => {
        const [a, b] = await Promise.all([join(), join()]);
        a.say("up:1");
        await b.hears("up:1");
        await place.value.down();
        a.say("up:2");
        b.say("up:3");
        await until(() => a.troubles.length === 1 && b.troubles.length === 1);
        // What cannot be heard any more is silent.
        await b.hears();
        await place.value.up();
        await Promise.all([b.hears("up:2"), a.hears("up:3")]);
        await until(() => a.troubles.length === 2 && b.troubles.length === 2);
        for (const { troubles, source } of [a, b]) {
          const [error, back] = troubles;
          assert.ok(error instanceof KeylaneError);
          assert.equal(error.code, "KEYLANE_ERR_SOURCE");
          assert.ok(error.message.startsWith(`hot key source ${source.name}: `), error.message);
          assert.equal(back, null);
        }
        await Promise.all([a, b].map(({ source }) => source.stop(2000)));
        await empty();
        assert.deepEqual([a.troubles.length, b.troubles.length], [2, 2]);
      });

      test("one that is down when it is started does not keep start waiting, and is heard once it is back", async () => {
        await place.value.down();
        const a = await join();
        assert.equal(a.troubles.length, 1);
        a.say("up:1");
        await place.value.up();
        const b = await join();
        await b.hears("up:1");
        await until(() => a.troubles.length === 2);
        assert.equal(a.troubles[1], null);
        await a.source.stop(2000);
        await b.hears();
      });

      test("all at once, again and again: nothing is lost", async () => {
        const parties = await Promise.all(Array.from({ length: 5 }, join));
        for (let round = 0; round < 4; round++) {
          for (const [at, party] of parties.entries()) party.say(`up:${at}:${round}`, `up:${at}`);
          await new Promise((resolve) => setImmediate(resolve));
        }
        await Promise.all(
          parties.map((party, own) => {
            const others = [...parties.keys()].filter((at) => at !== own);
            return party.hears(...others.flatMap((at) => [`up:${at}:3`, `up:${at}`]));
          }),
        );
        await Promise.all(parties.map(({ source }) => source.stop(3000)));
        await empty();
        assert.deepEqual(
          parties.flatMap(({ troubles }) => troubles),
          [],
        );
      });

      test("what is broken or foreign is told, passed over, and forgotten when it is gone", async () => {
        const [a, b] = await Promise.all([join(), join()]);
        a.say("up:1");
        await b.hears("up:1");
        const alien = "00000000-aaaa-bbbb";
        const texts = [
          "{nonsense",
          '{"keylane":2}',
          JSON.stringify({ keylane: 1, holder: "another", beat: 1, beatMs: 1, keys: [] }),
        ];
        for (const [at, text] of texts.entries()) {
          await place.value.plant(alien, text);
          await until(() => b.troubles.length === 2 * at + 1, { what: `trouble about ${text}` });
          assert.match(
            String(b.troubles[2 * at]),
            new RegExp(`"${alien}" is passed over: it is (not JSON|no document|another)`),
          );
          await place.value.plant(alien, null);
          await until(() => b.troubles.length === 2 * at + 2);
          assert.equal(b.troubles[2 * at + 1], null);
        }
        await place.value.plant("Foreign", "{}");
        await until(() => b.troubles.length === 7);
        assert.match(String(b.troubles[6]), /foreign|no name of a holder/);
        a.say("up:2");
        await b.hears("up:2");
        await place.value.plant("Foreign", null);
        await until(() => b.troubles.length === 8);
        assert.equal(b.troubles[7], null);
        await a.source.stop(2000);
        await b.source.stop(2000);
        await empty();
      });

      test("a document has at most 1,000 keys and its place's bytes, the hottest of them", async () => {
        const [a, b] = await Promise.all([join(), join()]);
        a.source.publish(Array.from({ length: 1500 }, (_, at) => hot(`up:${at}`, { rate: 10_000 + at })));
        await until(() => b.others.length > 0);
        assert.ok(b.others.length <= 1000 && b.others.length >= 150, String(b.others.length));
        assert.deepEqual(
          b.others.map(({ rate }) => rate),
          Array.from({ length: b.others.length }, (_, at) => 11_499 - at),
        );
        await a.source.stop(2000);
        assert.deepEqual([...a.troubles, ...b.troubles], []);
      });
    });
  }
});
