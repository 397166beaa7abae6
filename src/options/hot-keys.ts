/** When keys are hot, domain by domain: thresholds as numbers, defaults where neither the domain nor the instance names one. */
import type { HotKeysPolicy, HotRules } from "../hotkeys/policy.js";
import { fault } from "./fault.js";
import type { Given } from "./schema.js";

const WARN = 5000;
const CRITICAL = 20_000;
const NODE_LIMIT = 50_000;
/** Shares of a node's limit, when a share is asked for without a number. */
const WARN_SHARE = 0.1;
const CRITICAL_SHARE = 0.4;
/** Distance of the two thresholds when only one is named and the other's default is on the wrong side of it. */
const APART = 4;

/** Null when nothing is to be looked for. @throws KeylaneError `KEYLANE_ERR_OPTIONS` */
export function hotKeysOf({ hotKeys, domains }: Given): HotKeysPolicy | null {
  if (hotKeys === false) return null;
  const { allow = [], deny = [], topK = 100, source = null } = hotKeys ?? {};
  const rules = Object.entries(domains).map(([name, { hotKeys: own }]) => {
    if (own === false) return null;
    const path = own === undefined ? "hotKeys" : `domains.${name}.hotKeys`;
    return rulesOf(merged(hotKeys ?? {}, own ?? {}), path);
  });
  return rules.every((rule) => rule === null) ? null : { rules, allow, deny, topK, source };
}

/** Rules as they are given. */
interface GivenRules {
  readonly warn?: GivenThreshold;
  readonly critical?: GivenThreshold;
  readonly nodeLimit?: number | undefined;
  readonly replicas?: boolean | undefined;
}

type GivenThreshold = number | { readonly share?: number | undefined } | undefined;

function rulesOf({ nodeLimit = NODE_LIMIT, replicas = true, ...given }: GivenRules, path: string): HotRules {
  let warn = rateOf(given.warn, WARN_SHARE, nodeLimit);
  let critical = rateOf(given.critical, CRITICAL_SHARE, nodeLimit);
  if (warn === undefined) warn = critical === undefined || critical > WARN ? WARN : critical / APART;
  critical ??= warn < CRITICAL ? CRITICAL : warn * APART;
  if (warn >= critical) throw fault(`${path}.warn: must be below critical: ${warn} and ${critical} are given`);
  return { warn, critical, nodeLimit, replicas };
}

function rateOf(given: GivenThreshold, share: number, nodeLimit: number): number | undefined {
  return typeof given === "object" ? (given.share ?? share) * nodeLimit : given;
}

/** What the domain names, else what the instance names. */
function merged(all: GivenRules, own: GivenRules): GivenRules {
  return {
    warn: own.warn ?? all.warn,
    critical: own.critical ?? all.critical,
    nodeLimit: own.nodeLimit ?? all.nodeLimit,
    replicas: own.replicas ?? all.replicas,
  };
}
