/** A source as a process has one, with everything it was told. */
import { after } from "node:test";
import type { SharedHotKey } from "#dist/hotkeys/sources/source.js";
import type { SharedSource } from "#dist/hotkeys/sources/shared-source.js";
import { openSource } from "#dist/hotkeys/sources/open.js";
import type { HotKeySourceOptions } from "#dist/options/hot-key-source.js";
import { hotKeySourceSchema } from "#dist/options/hot-key-source.js";
import type { RawConfig } from "#dist/lane/raw.js";
import { until } from "../until.js";

/** Beat of sources under test; three of them are silence. */
export const BEAT_MS = 150;

export class Party {
  readonly source: SharedSource;
  /** What the others say, as last told, and every word of trouble. */
  others: readonly SharedHotKey[] = [];
  changes = 0;
  readonly troubles: (Error | null)[] = [];
  readonly started: Promise<void>;

  constructor(options: HotKeySourceOptions, laneOf: (domain: string) => RawConfig | undefined = () => undefined) {
    const given = hotKeySourceSchema.parse({ beatMs: BEAT_MS, ...options });
    this.source = openSource(given, laneOf);
    this.started = this.source.start(
      (others) => {
        this.others = others;
        this.changes += 1;
      },
      (error) => void this.troubles.push(error),
    );
    after(() => this.source.stop(1000));
  }

  static async join(...args: ConstructorParameters<typeof Party>): Promise<Party> {
    const party = new Party(...args);
    await party.started;
    return party;
  }

  /** Publishes keys at `critical`, by name. */
  say(...keys: string[]): void {
    this.source.publish(keys.map((key) => hot(key)));
  }

  /** Resolves when the others' keys are these, in any order. */
  async hears(...keys: string[]): Promise<void> {
    const wanted = keys.toSorted().join(" ");
    await until(() => this.heard() === wanted, { what: `${this.source.name}: "${wanted}"` }).catch((error: Error) => {
      throw new Error(`${error.message}, but "${this.heard()}"; ${this.troubles.map(String).join("; ")}`, {
        cause: error,
      });
    });
  }

  heard(): string {
    return this.others
      .map(({ key }) => key)
      .toSorted()
      .join(" ");
  }

  /** Dies without a word. */
  async die(): Promise<void> {
    await this.source.stop(0);
  }
}

export function hot(key: string, more: Partial<SharedHotKey> = {}): SharedHotKey {
  return { domain: "user_profile", key, level: "critical", rate: 21_000, replicas: [], ...more };
}
