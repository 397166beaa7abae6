/**
 * One server process of a sandbox. The invariant: a node keeps its port, folder and node id over stop, kill and start, and a
 * signal goes only to the child process this object started, never to a pid alone.
 */
import type { ChildProcess } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { ConnectionOptions } from "node:tls";
import { KeylaneError } from "../errors.js";
import { RespClient } from "./client.js";
import { atLeast, type ServerBinary } from "./find-server.js";
import { spawnGuarded } from "./guard.js";
import type { Announce, ServerConfig, ServerOptions } from "./options.js";
import { BUS_OFFSET, takePort } from "./ports.js";
import { formatAddress, parseInfo, type Reply } from "./resp.js";
import type { SandboxTls } from "./tls.js";

/** What all nodes of one sandbox have in common. */
export interface NodeSettings {
  readonly binary: ServerBinary;
  readonly folder: string;
  readonly options: ServerOptions;
  readonly tls: SandboxTls | undefined;
  readonly admin: { readonly username: string; readonly password: string } | undefined;
  /** Configuration of a cluster node, or nothing for a standalone server. */
  readonly cluster: ServerConfig | undefined;
  readonly announce?: ((index: number, port: number) => Announce) | undefined;
}

/** The sandbox's own ACL user; only sandboxes with a password or users need one. */
export function adminFor(options: ServerOptions): NodeSettings["admin"] {
  if (options.password === undefined && options.users === undefined) return undefined;
  return { username: "keylane-sandbox", password: randomBytes(12).toString("hex") };
}

/** A server of a sandbox. */
export class SandboxNode {
  /** Position in the sandbox's list of nodes. */
  readonly index: number;
  readonly host: string;
  /** Its working folder, with `server.conf` and `server.log`. */
  readonly dir: string;
  /** Cluster node id; empty for a standalone server. */
  id = "";
  /** Role when the sandbox last looked. */
  role: "primary" | "replica" = "primary";
  /** Id of the primary that a replica follows, when the sandbox last looked. */
  primaryId: string | undefined;
  /** Configuration lines that the next `start` adds to all others. */
  config: ServerConfig = {};

  readonly #settings: NodeSettings;
  #port = 0;
  #process: ChildProcess | undefined;
  #paused = false;
  #admin: RespClient | undefined;

  constructor(settings: NodeSettings, index: number) {
    this.#settings = settings;
    this.index = index;
    this.host = settings.options.host ?? "127.0.0.1";
    this.dir = join(settings.folder, `node-${index}`);
    mkdirSync(this.dir);
  }

  get port(): number {
    return this.#port;
  }

  /** `host:port`, as Keylane's `nodes` option takes it. */
  get address(): string {
    return formatAddress(this.host, this.#port);
  }

  /** Process id, undefined while the server does not run. */
  get pid(): number | undefined {
    return this.running ? this.#process?.pid : undefined;
  }

  /** True while the process exists, paused or not. */
  get running(): boolean {
    return this.#process !== undefined && this.#process.exitCode === null && this.#process.signalCode === null;
  }

  /** True between `pause` and `resume`. */
  get paused(): boolean {
    return this.running && this.#paused;
  }

  /**
   * Starts the server and resolves when it answers, be it that it is loading its data.
   * @throws KeylaneError `KEYLANE_ERR_SANDBOX` with the end of the server's log when it does not come up.
   */
  async start(): Promise<void> {
    if (this.running) return;
    for (let tries = 1; ; tries++) {
      const fresh = this.#port === 0;
      if (fresh) this.#port = await takePort(this.host);
      const failure = await this.#launch();
      if (failure === undefined) return;
      // Only a program that is no sandbox can have taken the port in between.
      const taken = fresh && tries < 5 && /Address already in use|bind/i.test(failure);
      if (!taken)
        throw new KeylaneError("KEYLANE_ERR_SANDBOX", `the server at ${this.address} did not start: ${failure}`);
      this.#port = 0;
    }
  }

  /** Asks the server to end (SIGTERM), insists after `timeoutMs`, and resolves when the process is gone. */
  async stop(timeoutMs = 3000): Promise<void> {
    const server = this.#process;
    if (server === undefined || !this.running) return;
    this.resume();
    server.kill("SIGTERM");
    const insist = setTimeout(() => server.kill("SIGKILL"), timeoutMs);
    await this.#gone(server);
    clearTimeout(insist);
  }

  /** Sends a signal, by default SIGKILL, and resolves when the process is gone. */
  async kill(signal: NodeJS.Signals = "SIGKILL"): Promise<void> {
    const server = this.#process;
    if (server === undefined || !this.running) return;
    server.kill(signal);
    await this.#gone(server);
  }

  /** Freezes the process (SIGSTOP): connections stay open, nothing is answered. */
  pause(): void {
    if (this.running) this.#paused = this.#process!.kill("SIGSTOP");
  }

  /** Lets a paused process go on (SIGCONT). */
  resume(): void {
    if (this.paused) this.#process!.kill("SIGCONT");
    this.#paused = false;
  }

  /** A new connection of its own to this server; close it yourself. Authenticated where the sandbox demands it. */
  client(options: { timeoutMs?: number } = {}): Promise<RespClient> {
    return RespClient.connect({
      host: this.host,
      port: this.#port,
      tls: this.tlsOptions,
      ...this.#settings.admin,
      ...options,
    });
  }

  /** Runs one command over a connection that the node keeps for this; bulk strings come as text. */
  async command(...args: readonly (string | number | bigint | Uint8Array)[]): Promise<Reply> {
    if (this.#admin === undefined || !this.#admin.open) this.#admin = (await this.client()).unref();
    return this.#admin.text(...args);
  }

  /** The fields of an INFO section, or of CLUSTER INFO when the section is `"cluster-info"`. */
  async info(section: string): Promise<Map<string, string>> {
    const reply = section === "cluster-info" ? this.command("CLUSTER", "INFO") : this.command("INFO", section);
    return parseInfo(String(await reply));
  }

  /** Options for `tls.connect`, undefined when the sandbox does not use TLS. */
  get tlsOptions(): ConnectionOptions | undefined {
    const { tls } = this.#settings;
    if (tls === undefined) return undefined;
    const identity = tls.clientCertificates ? { cert: tls.cert, key: tls.key } : {};
    return { ca: tls.ca, ...(tls.servername === undefined ? {} : { servername: tls.servername }), ...identity };
  }

  /** Writes the configuration, spawns, and waits for an answer of that very process; a text says what went wrong. */
  async #launch(): Promise<string | undefined> {
    const file = join(this.dir, "server.conf");
    writeFileSync(file, this.#configuration(), { mode: 0o600 });
    const server = spawnGuarded(this.#settings.binary.path, [file], this.dir, `:${this.#port}`);
    this.#process = server;
    this.#paused = false;
    const spawnError = new Promise<Error>((resolve) => {
      server.once("error", resolve);
    });
    const deadline = performance.now() + (this.#settings.options.startTimeoutMs ?? 30_000);
    let reason = "it did not answer";
    while (this.running && performance.now() < deadline) {
      const answer = this.#isUp().catch((error: Error) => error.message);
      const result = await Promise.race([answer, spawnError]);
      if (result === true) return undefined;
      if (result instanceof Error) {
        this.#process = undefined;
        return result.message;
      }
      reason = result;
      await sleep(10);
    }
    if (this.running) await this.kill();
    return `${reason}\n${this.log()}`;
  }

  async #isUp(): Promise<true | string> {
    this.#admin?.close();
    const info = await this.info("server");
    if (Number(info.get("process_id")) === this.pid) return true;
    return "bind: another server answers at this address";
  }

  /** The end of the server's log. */
  log(bytes = 2000): string {
    try {
      return readFileSync(join(this.dir, "server.log"), "utf8").slice(-bytes);
    } catch {
      return "";
    }
  }

  async #gone(server: ChildProcess): Promise<void> {
    this.#admin?.close();
    if (server.exitCode !== null || server.signalCode !== null) return;
    server.ref();
    await once(server, "exit");
  }

  #configuration(): string {
    const { binary, options, tls, admin, cluster } = this.#settings;
    const lines: string[] = [];
    const add = (config: ServerConfig): void => {
      for (const [name, value] of Object.entries(config)) {
        for (const line of typeof value === "object" ? value : [String(value)])
          lines.push(`${name} ${line === "" ? '""' : line}`);
      }
    };
    add({ bind: this.host, "protected-mode": "no", port: tls === undefined ? this.#port : 0, "tcp-backlog": 511 });
    add({ dir: `"${this.dir}"`, logfile: "server.log", loglevel: "warning", save: "", appendonly: "no" });
    add({
      "repl-diskless-sync": "yes",
      "repl-diskless-sync-delay": 0,
      "repl-ping-replica-period": 1,
      "repl-backlog-size": "4mb",
    });
    if (atLeast(binary, 7)) add({ "enable-debug-command": "local", "shutdown-timeout": 0 });
    if (tls !== undefined) {
      const { ca, cert, key } = tls.files;
      add({ "tls-port": this.#port, "tls-cert-file": cert, "tls-key-file": key, "tls-ca-cert-file": ca });
      add({ "tls-auth-clients": tls.clientCertificates ? "yes" : "no", "tls-replication": "yes" });
      if (cluster !== undefined) add({ "tls-cluster": "yes" });
    }
    if (options.password !== undefined) add({ requirepass: options.password });
    if (options.users !== undefined) add({ user: options.users });
    if (admin !== undefined) {
      add({
        user: `${admin.username} on >${admin.password} ~* &* +@all`,
        masteruser: admin.username,
        masterauth: admin.password,
      });
    }
    if (cluster !== undefined) add({ ...cluster, ...this.#announced(tls !== undefined) });
    add(options.config ?? {});
    add(this.config);
    return `${lines.join("\n")}\n`;
  }

  #announced(tls: boolean): ServerConfig {
    const { ip, port, hostname, endpoint } = this.#settings.announce?.(this.index, this.#port) ?? {};
    return {
      ...(ip === undefined ? {} : { "cluster-announce-ip": ip }),
      ...(port === undefined ? {} : { [tls ? "cluster-announce-tls-port" : "cluster-announce-port"]: port }),
      ...(port === undefined ? {} : { "cluster-announce-bus-port": this.#port + BUS_OFFSET }),
      ...(hostname === undefined ? {} : { "cluster-announce-hostname": hostname }),
      ...(endpoint === undefined ? {} : { "cluster-preferred-endpoint-type": endpoint }),
    };
  }
}
