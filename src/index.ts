/** Public exports of keylane, nothing else. */
export { Keylane } from "./keylane.js";
export { ERRORS, KeylaneError } from "./errors.js";
export type { ErrorContext, KeylaneErrorCode, Outcome, SerializedError } from "./errors.js";
export type { CacheOptions, CapsOptions, DomainOptions, LedgerOptions, NodeOption, OpenOptions } from "./options.js";
export type { Caps } from "./caps/caps.js";
export type {
  Cap,
  CapState,
  CapsResult,
  CivilCap,
  IdOptions,
  KeyCap,
  ReserveOptions,
  TakeOptions,
  TimedCap,
} from "./caps/types.js";
export type { Ledger } from "./ledger/ledger.js";
export type { AddOptions, Budget, ChargeOptions, ChargeResult, LedgerPending } from "./ledger/policy.js";
export type { HotKeys } from "./hotkeys/hot-keys.js";
export type {
  HotAction,
  HotKeyEvent,
  HotKeyInfo,
  HotKeyRecoveredEvent,
  HotKeyRules,
  HotKeysOptions,
  HotKeysStats,
  HotLevel,
  HotState,
  HotThreshold,
  PinOptions,
  TopKey,
} from "./hotkeys/types.js";
export type { HotKeySourceOptions } from "./options/hot-key-source.js";
export type { Impression, ImpressionResult } from "./impressions/types.js";
export type { NatMap } from "./lane/config.js";
export type { RawClient } from "./lane/raw.js";
export type { Script } from "./lane/script.js";
export type { Transaction } from "./lane/transaction.js";
export type { KeylaneHandle, PoolHandle } from "./shared/handle.js";
export type { RegionHandle } from "./shared/region.js";
export { keylaneMetrics } from "./metrics/metrics.js";
export type { KeylaneMetrics, MetricsOptions, MetricsSource } from "./metrics/metrics.js";
export { nativeInfo } from "./native/index.js";
export { valueOf } from "./types.js";
export type {
  CacheStats,
  CallOptions,
  CapsStats,
  CodecName,
  CommandArg,
  CommandOptions,
  DomainStats,
  Key,
  KeylaneEvents,
  NodeStats,
  Reply,
  Route,
  ScaleReads,
  SetOptions,
  Stats,
  ValueFor,
  ValueType,
} from "./types.js";
export type { CacheMessage, CommandMessage, ConnectMessage } from "./diagnostics.js";
