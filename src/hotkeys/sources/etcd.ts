/**
 * Hot keys in etcd, by the JSON gateway of its v3 API: a key per holder below a prefix, each under a lease of its process, so
 * that etcd itself drops what a dead process said. A watch tells changes from the revision after the last look on; when it
 * is lost it goes on from the last revision seen, and when that has been compacted away everything is looked up anew.
 *
 * ```text
 * <prefix><holder>  →  <document>     keys and values are base64, 64-bit numbers are strings
 * ```
 */
import type { SourceOf } from "../../options/hot-key-source.js";
import type { Carrier, Feed } from "./carrier.js";
import { MAX_DOCUMENT_BYTES } from "./document.js";
import { HttpError, HttpPlace } from "./http.js";

/** A lease lives for so many beats that were not renewed. */
const LEASE_BEATS = 3;
/** Documents of one range. */
const MAX_HOLDERS = 2048;
/** gRPC codes, as the gateway tells them. */
const INVALID_ARGUMENT = 3;
const NOT_FOUND = 5;
const UNAUTHENTICATED = 16;

interface Pair {
  readonly key: string;
  readonly value?: string;
  readonly mod_revision?: string;
}

interface Range {
  readonly header: { readonly revision: string };
  readonly kvs?: readonly Pair[];
}

/** A line of a watch. */
interface Told {
  readonly result?: {
    readonly header?: { readonly revision?: string };
    readonly created?: boolean;
    readonly canceled?: boolean;
    readonly compact_revision?: string;
    readonly cancel_reason?: string;
    readonly events?: readonly { readonly type?: "PUT" | "DELETE"; readonly kv: Pair }[];
  };
  readonly error?: { readonly message?: string };
}

export class EtcdCarrier implements Carrier {
  readonly name: string;
  readonly maxBytes = MAX_DOCUMENT_BYTES;
  readonly pollBeats = 2;
  readonly #options: SourceOf<"etcd">;
  readonly #own: string;
  readonly #place: HttpPlace;
  #token: string | undefined;
  #lease: string | undefined;
  /** Changes after this revision have not been seen; null before the first look and after a compaction. */
  #revision: bigint | null = null;

  constructor(holder: string, options: SourceOf<"etcd">) {
    this.#options = options;
    this.#own = options.prefix + holder;
    this.#place = new HttpPlace(options.endpoints, options.tls);
    this.name = `etcd ${this.#place.name} ${options.prefix}`;
  }

  secrets(): readonly string[] {
    return [this.#options.password ?? "", this.#token ?? ""];
  }

  async list(signal: AbortSignal): Promise<ReadonlyMap<string, string>> {
    const { prefix } = this.#options;
    const body = { key: base64(prefix), range_end: after(prefix), limit: String(MAX_HOLDERS) };
    const { header, kvs = [] } = (await this.#call("/v3/kv/range", body, signal)) as Range;
    this.#revision ??= BigInt(header.revision);
    return new Map(kvs.map(({ key, value = "" }) => [this.#holderOf(key), plain(value)]));
  }

  async put(text: string, signal: AbortSignal): Promise<void> {
    await this.#renew(signal);
    await this.#call("/v3/kv/put", { key: base64(this.#own), value: base64(text), lease: this.#lease! }, signal);
  }

  async remove(signal: AbortSignal): Promise<void> {
    const lease = this.#lease;
    this.#lease = undefined;
    await this.#call("/v3/kv/deleterange", { key: base64(this.#own) }, signal);
    if (lease !== undefined) await this.#call("/v3/lease/revoke", { ID: lease }, signal).catch(ignoreLostLease);
  }

  async sweep(holder: string, text: string, signal: AbortSignal): Promise<void> {
    const key = base64(this.#options.prefix + holder);
    const compare = [{ key, target: "VALUE", result: "EQUAL", value: base64(text) }];
    await this.#call("/v3/kv/txn", { compare, success: [{ request_delete_range: { key } }] }, signal);
  }

  async listen(feed: Feed, signal: AbortSignal): Promise<void> {
    if (this.#revision === null) await this.list(signal);
    const { prefix, timeoutMs } = this.#options;
    const from = String(this.#revision! + 1n);
    const create = { key: base64(prefix), range_end: after(prefix), start_revision: from };
    const ask = {
      method: "POST" as const,
      path: "/v3/watch",
      body: JSON.stringify({ create_request: create }),
      timeoutMs,
      signal,
    };
    await this.#authorised(signal, (headers) =>
      this.#place.lines({ ...ask, headers }, (line) => this.#told(JSON.parse(line) as Told, feed)),
    );
  }

  close(): void {
    this.#place.close();
  }

  #told({ result, error }: Told, feed: Feed): void {
    if (error !== undefined) throw new Error(`the watch failed: ${error.message ?? ""}`);
    if (result === undefined) return;
    if (result.canceled === true) {
      const compacted = BigInt(result.compact_revision ?? "0") > 0n;
      if (compacted) this.#revision = null;
      throw new Error(
        compacted ? "what was missed has been compacted" : `the watch ended: ${result.cancel_reason ?? ""}`,
      );
    }
    if (result.created === true) feed.up();
    for (const { type = "PUT", kv } of result.events ?? []) {
      if (type === "DELETE") feed.remove(this.#holderOf(kv.key));
      else feed.put(this.#holderOf(kv.key), plain(kv.value ?? ""));
      const at = BigInt(kv.mod_revision ?? "0");
      if (this.#revision !== null && at > this.#revision) this.#revision = at;
    }
  }

  #holderOf(key: string): string {
    return plain(key).slice(this.#options.prefix.length);
  }

  /** Keeps the lease alive, or takes one. */
  async #renew(signal: AbortSignal): Promise<void> {
    if (this.#lease !== undefined) {
      const { result } = (await this.#call("/v3/lease/keepalive", { ID: this.#lease }, signal)) as {
        result?: { TTL?: string };
      };
      // A lease that has run out is answered without a time to live.
      if (Number(result?.TTL ?? "0") > 0) return;
      this.#lease = undefined;
    }
    const seconds = Math.max(1, Math.ceil((LEASE_BEATS * this.#options.beatMs) / 1000));
    const { ID } = (await this.#call("/v3/lease/grant", { TTL: String(seconds) }, signal)) as { ID: string };
    this.#lease = ID;
  }

  async #call(path: string, body: object, signal: AbortSignal): Promise<unknown> {
    const { timeoutMs } = this.#options;
    const text = await this.#authorised(signal, (headers) =>
      this.#place.must({ method: "POST", path, headers, body: JSON.stringify(body), timeoutMs, signal }),
    );
    return JSON.parse(text);
  }

  /** Does it with a token where there is a user, and once more with a new one when the token is no good any more. */
  async #authorised<T>(signal: AbortSignal, work: (headers: Record<string, string>) => Promise<T>): Promise<T> {
    const { username: name, password = "", timeoutMs } = this.#options;
    if (name === undefined) return work({});
    for (let tries = 0; ; tries++) {
      if (this.#token === undefined) {
        const body = JSON.stringify({ name, password });
        const ask = { method: "POST" as const, path: "/v3/auth/authenticate", body, timeoutMs, signal };
        this.#token = (JSON.parse(await this.#place.must(ask)) as { token: string }).token;
      }
      const token = this.#token;
      try {
        return await work({ authorization: token });
      } catch (error) {
        if (tries > 0 || !staleToken(error)) throw error;
        if (this.#token === token) this.#token = undefined;
      }
    }
  }
}

const base64 = (text: string): string => Buffer.from(text).toString("base64");
const plain = (text: string): string => Buffer.from(text, "base64").toString();

/** The first key after all that begin with the prefix, in base64. No byte of UTF-8 is the highest there is. */
function after(prefix: string): string {
  const bytes = Buffer.from(prefix);
  bytes[bytes.length - 1]! += 1;
  return bytes.toString("base64");
}

function codeOf(error: unknown): number | undefined {
  if (!(error instanceof HttpError)) return undefined;
  try {
    return (JSON.parse(error.body) as { code?: number }).code;
  } catch {
    return undefined;
  }
}

/** A token that ran out, that a restarted server does not know, or that is older than the last change of users. */
function staleToken(error: unknown): boolean {
  const code = codeOf(error);
  if (code === UNAUTHENTICATED) return true;
  return code === INVALID_ARGUMENT && /auth|token|revision/i.test((error as HttpError).body);
}

function ignoreLostLease(error: unknown): void {
  if (codeOf(error) !== NOT_FOUND) throw error;
}
