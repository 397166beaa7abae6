/** The kinds of places where hot keys are told, each as a real or scripted server that can go down and come back. */
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { HotKeySourceOptions } from "#dist/options/hot-key-source.js";
import { startSingle } from "keylane/sandbox";
import { ApolloServer } from "./apollo-server.js";
import { Etcd } from "./etcd.js";
import { NacosServer } from "./nacos-server.js";

export interface Place {
  readonly options: HotKeySourceOptions;
  /** What lies there, by name. */
  entries(): Promise<ReadonlyMap<string, string>>;
  /** Puts a text there past every source, or takes it away. */
  plant(name: string, text: string | null): Promise<void>;
  down(): Promise<void>;
  up(): Promise<void>;
  stop(): Promise<void>;
}

/** A folder; it is down while something that is no folder has its name. */
export async function filePlace(): Promise<Place> {
  const home = mkdtempSync(join(tmpdir(), "keylane-hot-"));
  const directory = join(home, "hot");
  const aside = join(home, "aside");
  const files = (): string[] => readdirSync(directory).filter((name) => !name.startsWith("."));
  return {
    options: { kind: "file", directory },
    entries: async () =>
      new Map(files().map((name) => [name.replace(/\.json$/, ""), readFileSync(join(directory, name), "utf8")])),
    plant: async (name, text) => {
      const file = join(directory, `${name}.json`);
      mkdirSync(directory, { recursive: true });
      if (text === null) rmSync(file);
      else writeFileSync(file, text);
    },
    down: async () => {
      renameSync(directory, aside);
      writeFileSync(directory, "no folder");
    },
    up: async () => {
      rmSync(directory);
      renameSync(aside, directory);
    },
    stop: async () => rmSync(home, { recursive: true, force: true }),
  };
}

const REDIS_KEY = "keylane:hotkeys";

/** A server that forgets everything when it is down. */
export async function redisPlace(): Promise<Place> {
  const server = await startSingle();
  return {
    // A connection that is not there is waited for until then.
    options: { kind: "redis", url: `redis://${server.address}`, timeoutMs: 500 },
    entries: async () => {
      const flat = (await server.node.command("HGETALL", REDIS_KEY)) as string[];
      return new Map(Array.from({ length: flat.length / 2 }, (_, at) => [flat[at * 2]!, flat[at * 2 + 1]!]));
    },
    plant: async (name, text) => {
      await (text === null
        ? server.node.command("HDEL", REDIS_KEY, name)
        : server.node.command("HSET", REDIS_KEY, name, text));
      await server.node.command("PUBLISH", REDIS_KEY, `${name} ${text ?? ""}`);
    },
    down: () => server.node.kill(),
    up: () => server.node.start(),
    stop: () => server.stop(),
  };
}

const ETCD_PREFIX = "keylane/hotkeys/";

export async function etcdPlace(): Promise<Place> {
  const etcd = await Etcd.start();
  return {
    options: { kind: "etcd", endpoints: [etcd.url] },
    entries: () => etcd.entries(ETCD_PREFIX),
    plant: (name, text) => (text === null ? etcd.remove(ETCD_PREFIX + name) : etcd.put(ETCD_PREFIX + name, text)),
    down: () => etcd.down(),
    up: () => etcd.up(),
    stop: () => etcd.stop(),
  };
}

const DATA_ID = "keylane.hotkeys";

export async function nacosPlace(): Promise<Place> {
  const nacos = await NacosServer.start({ holdMs: 300 });
  const board = (): Record<string, unknown> => JSON.parse(nacos.content(DATA_ID) ?? "{}") as Record<string, unknown>;
  return {
    options: { kind: "nacos", servers: [nacos.url] },
    entries: async () => new Map(Object.entries(board()).map(([name, value]) => [name, JSON.stringify(value)])),
    plant: async (name, text) => {
      const { [name]: _, ...others } = board();
      // What is no JSON is a string of it.
      nacos.publish(DATA_ID, JSON.stringify(text === null ? others : { ...others, [name]: jsonOf(text) }));
    },
    down: () => nacos.down(),
    up: () => nacos.up(),
    stop: () => nacos.down(),
  };
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

export async function apolloPlace(): Promise<Place> {
  const apollo = await ApolloServer.start({ appId: "ads", namespace: DATA_ID, holdMs: 300 });
  const { url, token, operator } = apollo;
  return {
    options: { kind: "apollo", portal: url, token, operator, servers: [url], appId: "ads" },
    entries: async () => new Map(Object.entries(apollo.released)),
    plant: async (name, text) => {
      if (text === null) apollo.items.delete(name);
      else apollo.items.set(name, text);
      apollo.release();
    },
    down: () => apollo.down(),
    up: () => apollo.up(),
    stop: () => apollo.down(),
  };
}

/** Every kind by its name. */
export const PLACES: ReadonlyMap<string, () => Promise<Place>> = new Map([
  ["file", filePlace],
  ["redis", redisPlace],
  ["etcd", etcdPlace],
  ["nacos", nacosPlace],
  ["apollo", apolloPlace],
]);
