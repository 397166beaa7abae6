/** `keylane hotkeys --live`: the hot set of a fleet as it changes, and its exit codes. */
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { useSingle } from "../../support/fixtures.js";
import { hot, Party } from "../../support/hot-sources/party.js";
import { makeFolder } from "../../support/ledger.js";
import { within } from "../../support/until.js";

const CLI = fileURLToPath(new URL("cli/main.js", import.meta.resolve("keylane")));

interface Picture {
  readonly atMs: number;
  readonly keys: readonly {
    domain: string;
    key: string;
    level: string;
    rate: number;
    replicas: string[];
  }[];
}

/** A command that shows a source. */
class Live {
  readonly child: ChildProcess;
  readonly #lines: AsyncIterator<string>;
  errors = "";

  constructor(...args: string[]) {
    this.child = spawn(process.execPath, [CLI, "hotkeys", "--live", ...args], { stdio: ["ignore", "pipe", "pipe"] });
    this.child.stderr!.on("data", (chunk: Buffer) => (this.errors += chunk.toString()));
    this.#lines = createInterface({ input: this.child.stdout! })[Symbol.asyncIterator]();
    after(() => this.child.kill("SIGKILL"));
  }

  async line(): Promise<string> {
    const { value, done } = await within(this.#lines.next(), 20_000, "a line");
    assert.ok(done !== true, this.errors);
    return value as string;
  }

  /** The next picture whose keys are these. */
  async shows(...keys: string[]): Promise<Picture> {
    for (;;) {
      const picture = JSON.parse(await this.line()) as Picture;
      if (picture.keys.map(({ key }) => key).join() === keys.join()) return picture;
    }
  }

  async end(signal?: NodeJS.Signals): Promise<number | null> {
    const ended = once(this.child, "exit") as Promise<[number | null]>;
    if (signal !== undefined) this.child.kill(signal);
    return (await within(ended, 20_000, "the end"))[0];
  }
}

describe("keylane hotkeys --live", () => {
  const single = useSingle();

  it("shows what processes tell together, at every change, until it is interrupted", async () => {
    const directory = makeFolder();
    const source = { kind: "file", directory, beatMs: 150 } as const;
    const one = await Party.join(source);
    one.say("up:a");
    const live = new Live("--source", JSON.stringify(source), "--json");
    const [first] = (await live.shows("up:a")).keys;
    assert.deepEqual([first!.level, first!.rate], [hot("up:a").level, hot("up:a").rate]);
    const two = await Party.join(source);
    two.source.publish([
      { ...hot("up:a"), rate: 7, replicas: ["up:a{r}"] },
      { ...hot("fc:b"), rate: 5 },
    ]);
    const both = await live.shows("up:a", "fc:b");
    assert.equal(both.keys[0]!.rate, hot("up:a").rate + 7);
    assert.deepEqual(both.keys[0]!.replicas, ["up:a{r}"]);
    one.say();
    two.source.publish([]);
    await live.shows();
    assert.equal(await live.end("SIGINT"), 0, live.errors);
  });

  it("hears a Redis server, filters, prints tables, and ends when its time is over", async () => {
    const party = await Party.join({ kind: "redis", url: `redis://${single.value.address}` });
    party.source.publish([{ ...hot("up:\u0007"), domain: "d" }, hot("fc:1"), { ...hot("up:other"), domain: "e" }]);
    const watcher = await Party.join({ kind: "redis", url: `redis://${single.value.address}` });
    await watcher.hears("up:\u0007", "fc:1", "up:other");
    const args = ["--source", `redis://${single.value.address}`, "--prefix", "up:", "--domain", "d", "--seconds", "1"];
    const live = new Live(...args);
    assert.match(await live.line(), /^hot keys after \d\.\d s +domain +level +ops\/s +copies$/);
    assert.match(await live.line(), /^up:\\x07 +d +critical +/);
    assert.equal(await live.line(), "");
    assert.equal(await live.end(), 0, live.errors);
  });

  it("reads the options of open, whose domain may hold the set; ends with 2 while nobody is heard", async () => {
    const folder = makeFolder();
    const options = (address: string): string[] => {
      const file = join(folder, `${address}.json`);
      const domains = { up: { prefixes: ["up:"], nodes: [address], mode: "single" } };
      writeFileSync(
        file,
        JSON.stringify({ domains, hotKeys: { source: { kind: "redis", domain: "up", beatMs: 100 } } }),
      );
      return ["--options", file, "--seconds", "1", "--json"];
    };
    const fine = new Live(...options(single.value.address));
    assert.deepEqual(Object.keys(JSON.parse(await fine.line()) as object), ["atMs", "keys"]);
    const gone = new Live(...options("127.0.0.1:1"));
    assert.deepEqual(await Promise.all([fine.end(), gone.end()]), [0, 2]);
    assert.match(gone.errors, /^redis/m);
  });

  it("refuses what it cannot listen to", async () => {
    const cases: readonly [readonly string[], RegExp][] = [
      [[], /name --source/],
      [["--source", "up"], /redis:\/\/…, file:FOLDER or JSON/],
      [["--source", '{"kind":"file"}'], /source: directory/],
      [["--source", "file:/tmp", "--server"], /exclude each other/],
    ];
    const refused = async ([args, message]: (typeof cases)[number]): Promise<void> => {
      const live = new Live(...args);
      assert.equal(await live.end(), 1);
      assert.match(live.errors, message);
      assert.match(live.errors, /KEYLANE_ERR_OPTIONS/);
    };
    await Promise.all(cases.map(refused));
  });
});
