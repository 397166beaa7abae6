/**
 * Where the processes of a fleet tell each other their hot keys: what `hotKeys.source` accepts, as types and as a schema.
 * Faults never quote a value, since it may hold a password.
 */
import type { ConnectionOptions } from "node:tls";
import { z } from "zod";

/** What every kind of source takes. */
export interface SourceTimes {
  /**
   * Distance in milliseconds at which a process renews what it says while it has hot keys; others forget it after three times
   * that long without a word. 10 to 60,000, default 5,000.
   */
  readonly beatMs?: number;
  /** Deadline of one request, in milliseconds. Default 2,000. */
  readonly timeoutMs?: number;
}

/** A folder all processes of one machine (or of one shared file system) see. */
export interface FileSourceOptions extends SourceTimes {
  readonly kind: "file";
  /** Made when it is missing. Holds nothing else. */
  readonly directory: string;
}

/** A hash and a channel of one name, in a domain of this instance or at a server of its own. */
export interface RedisSourceOptions extends SourceTimes {
  readonly kind: "redis";
  /** Name of a domain whose servers hold it. Either this or `url`. */
  readonly domain?: string;
  /** `redis://[user[:password]@]host[:port][/db]`, or `rediss://` for TLS. */
  readonly url?: string;
  /** Whether the server at `url` is a seed of a cluster. Default false. */
  readonly cluster?: boolean;
  readonly username?: string;
  readonly password?: string;
  readonly tls?: ConnectionOptions;
  /** Name of the hash and of the channel. Default `keylane:hotkeys`. */
  readonly key?: string;
}

/** etcd 3.4 or later, by its JSON gateway. */
export interface EtcdSourceOptions extends SourceTimes {
  readonly kind: "etcd";
  /** `http://host:port`; tried in turn. */
  readonly endpoints: readonly string[];
  /** What all keys begin with. Default `keylane/hotkeys/`. */
  readonly prefix?: string;
  readonly username?: string;
  readonly password?: string;
  readonly tls?: ConnectionOptions;
}

/**
 * Nacos 2.x by its open API v1 (3.x where that API is switched on): one configuration that all processes write by comparing
 * and setting, and read by long polling.
 */
export interface NacosSourceOptions extends SourceTimes {
  readonly kind: "nacos";
  /** `http://host:port`, with the context path where it is not `/nacos`; tried in turn. */
  readonly servers: readonly string[];
  /** Default `keylane.hotkeys`. */
  readonly dataId?: string;
  /** Default `DEFAULT_GROUP`. */
  readonly group?: string;
  /** Id of the namespace. Default: the public one. */
  readonly namespace?: string;
  readonly username?: string;
  readonly password?: string;
  readonly tls?: ConnectionOptions;
}

/**
 * Apollo: an item per process, written and released through the portal's open API, and read from the config service by long
 * polling. Every beat is a release, so a longer `beatMs` is kinder to it.
 */
export interface ApolloSourceOptions extends SourceTimes {
  readonly kind: "apollo";
  /** Address of the portal. */
  readonly portal: string;
  /** Token of the open API, allowed to modify and release the namespace. */
  readonly token: string;
  /** User id under which changes are booked. */
  readonly operator: string;
  /** Addresses of the config service; tried in turn. */
  readonly servers: readonly string[];
  /** Access key of the app, where it has one. */
  readonly secret?: string;
  readonly appId: string;
  /** Environment as the portal names it. Default `DEV`. */
  readonly env?: string;
  /** Default `default`. */
  readonly cluster?: string;
  /** A namespace of the format `properties` that holds nothing else. Default `keylane.hotkeys`. */
  readonly namespace?: string;
  readonly tls?: ConnectionOptions;
}

/** A place where processes tell each other their hot keys. */
export type HotKeySourceOptions =
  | FileSourceOptions
  | RedisSourceOptions
  | EtcdSourceOptions
  | NacosSourceOptions
  | ApolloSourceOptions;

const times = {
  beatMs: z.number().int().min(10).max(60_000).default(5000),
  timeoutMs: z.number().int().min(1).max(600_000).default(2000),
};
const text = z.string().min(1);
/** Characters that Nacos and Apollo take in names, and that need no escaping in addresses. */
const plain = z.string().regex(/^[\w.:-]+$/, "may hold letters, digits and . _ : - only");
const tls = z
  .custom<ConnectionOptions>((value) => typeof value === "object" && value !== null, "must be an object")
  .optional();

const parsed = (value: string): URL | null => (URL.canParse(value) ? new URL(value) : null);

const web = z.string().check((check) => {
  const refuse = (message: string): void => void check.issues.push({ code: "custom", input: undefined, message });
  const url = parsed(check.value);
  if (url === null || !/^https?:$/.test(url.protocol)) refuse("must be an http:// or https:// address");
  else if (url.username !== "" || url.password !== "") refuse("must not hold a user or password; they are options");
  else if (url.search !== "" || url.hash !== "") refuse("must not hold a query");
});

const redisUrl = z
  .string()
  .refine((value) => /^rediss?:$/.test(parsed(value)?.protocol ?? ""), "must be a redis:// or rediss:// address")
  .refine((value) => /^\/?\d*$/.test(parsed(value)?.pathname ?? ""), "its path must be a database number");

/** What `hotKeys.source` may be. */
export const hotKeySourceSchema = z.discriminatedUnion("kind", [
  z.strictObject({ kind: z.literal("file"), directory: text, ...times }),
  z
    .strictObject({
      kind: z.literal("redis"),
      domain: text.optional(),
      url: redisUrl.optional(),
      cluster: z.boolean().default(false),
      username: z.string().optional(),
      password: z.string().optional(),
      tls,
      key: text.default("keylane:hotkeys"),
      ...times,
    })
    .refine(({ domain, url }) => (domain === undefined) !== (url === undefined), "needs either domain or url"),
  z.strictObject({
    kind: z.literal("etcd"),
    endpoints: z.array(web).min(1),
    prefix: text.default("keylane/hotkeys/"),
    username: text.optional(),
    password: z.string().optional(),
    tls,
    ...times,
  }),
  z.strictObject({
    kind: z.literal("nacos"),
    servers: z.array(web).min(1),
    dataId: plain.default("keylane.hotkeys"),
    group: plain.default("DEFAULT_GROUP"),
    namespace: z.union([z.literal(""), plain]).default(""),
    username: text.optional(),
    password: z.string().optional(),
    tls,
    ...times,
  }),
  z.strictObject({
    kind: z.literal("apollo"),
    portal: web,
    token: text,
    operator: text,
    servers: z.array(web).min(1),
    secret: text.optional(),
    appId: plain,
    env: plain.default("DEV"),
    cluster: plain.default("default"),
    namespace: plain.default("keylane.hotkeys"),
    tls,
    ...times,
  }),
]);

/** Options of a source that passed, defaults filled in. */
export type GivenSource = z.infer<typeof hotKeySourceSchema>;
/** The same of one kind. */
export type SourceOf<K extends GivenSource["kind"]> = Extract<GivenSource, { kind: K }>;
