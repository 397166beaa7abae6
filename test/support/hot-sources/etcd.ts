/** A real etcd of one member, which keeps its port and its data over stops. */
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { acquire, release, spawnGuarded } from "#dist/sandbox/guard.js";
import { installCommand, installPackage, mayInstall, onPath } from "#dist/sandbox/packages.js";
import { takePort } from "#dist/sandbox/ports.js";
import { until } from "../until.js";

const HOST = "127.0.0.1";
const PACKAGE = "etcd-server";
/** A request that takes longer is given up. */
const ANSWER_MS = 2000;

/** Path of the program; installs it where that can be done. @throws Error with the command to run */
async function findEtcd(): Promise<string> {
  const found = onPath("etcd");
  if (found !== undefined) return found;
  if (mayInstall()) await installPackage(PACKAGE);
  const installed = onPath("etcd");
  if (installed === undefined) throw new Error(`no etcd was found; run: sudo ${installCommand(PACKAGE)}`);
  return installed;
}

export class Etcd {
  readonly url: string;
  readonly #binary: string;
  readonly #folder: string;
  readonly #peer: string;
  #process: ChildProcess | undefined;

  private constructor(binary: string, folder: string, port: number, peerPort: number) {
    this.#binary = binary;
    this.#folder = folder;
    this.url = `http://${HOST}:${port}`;
    this.#peer = `http://${HOST}:${peerPort}`;
  }

  static async start(): Promise<Etcd> {
    const binary = await findEtcd();
    const etcd = new Etcd(binary, acquire(), await takePort(HOST), await takePort(HOST));
    try {
      await etcd.up();
    } catch (error) {
      await etcd.stop();
      throw error;
    }
    return etcd;
  }

  /** Starts the process; resolves when it answers. */
  async up(): Promise<void> {
    const args = [
      ["--name", "one"],
      ["--data-dir", join(this.#folder, "data")],
      ["--listen-client-urls", this.url],
      ["--advertise-client-urls", this.url],
      ["--listen-peer-urls", this.#peer],
      ["--initial-advertise-peer-urls", this.#peer],
      ["--initial-cluster", `one=${this.#peer}`],
      // Tests do not need what is written to survive the machine.
      ["--unsafe-no-fsync"],
    ].flat();
    if (this.#process !== undefined) throw new Error("it runs already");
    const child = spawnGuarded(this.#binary, args, this.#folder, this.url);
    this.#process = child;
    await until(
      () => {
        if (child.exitCode !== null) throw new Error(`etcd ended with ${child.exitCode}`);
        return this.call("/v3/kv/range", { key: "AA==" }).then(() => true);
      },
      { timeoutMs: 20_000, what: `an answer of etcd at ${this.url}` },
    );
  }

  /** Kills the process; its data stay. */
  async down(): Promise<void> {
    const child = this.#process;
    this.#process = undefined;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    child.ref();
    child.kill("SIGKILL");
    await once(child, "exit");
  }

  /** One request to the JSON gateway. */
  async call(path: string, body: object, token?: string): Promise<Record<string, unknown>> {
    const headers = token === undefined ? {} : { authorization: token };
    const response = await fetch(this.url + path, {
      method: "POST",
      body: JSON.stringify(body),
      headers,
      signal: AbortSignal.timeout(ANSWER_MS),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${path}: ${text}`);
    return JSON.parse(text) as Record<string, unknown>;
  }

  /** Texts below a prefix, by the rest of their keys. */
  async entries(prefix: string): Promise<Map<string, string>> {
    const bytes = Buffer.from(prefix);
    bytes[bytes.length - 1]! += 1;
    const range = { key: base64(prefix), range_end: bytes.toString("base64") };
    const { kvs = [] } = (await this.call("/v3/kv/range", range)) as { kvs?: { key: string; value?: string }[] };
    return new Map(kvs.map(({ key, value = "" }) => [plain(key).slice(prefix.length), plain(value)]));
  }

  async put(key: string, text: string): Promise<void> {
    await this.call("/v3/kv/put", { key: base64(key), value: base64(text) });
  }

  async remove(key: string): Promise<void> {
    await this.call("/v3/kv/deleterange", { key: base64(key) });
  }

  async stop(): Promise<void> {
    await this.down();
    release(this.#folder);
  }
}

export const base64 = (text: string): string => Buffer.from(text).toString("base64");
const plain = (text: string): string => Buffer.from(text, "base64").toString();
