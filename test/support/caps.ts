/** Frequency caps in tests: keys without a TTL, and a keylane whose caps live on a cluster. */
import type { OpenOptions } from "keylane";
import type { SandboxNode } from "keylane/sandbox";

/** Options for caps on one cluster; `caps` as of `open`. */
export function capsOptions(nodes: readonly string[], caps: OpenOptions["caps"] = {}, more: object = {}): OpenOptions {
  return { domains: { freq: { prefixes: ["fc:"], nodes } }, caps, ...more };
}

/** Keys of a node that would stay for ever. */
export async function keysWithoutTtl(node: SandboxNode): Promise<string[]> {
  const keys: string[] = [];
  let cursor = "0";
  do {
    const [next, page] = (await node.command("SCAN", cursor, "COUNT", 1000)) as [string, string[]];
    cursor = String(next);
    for (const key of page) if ((await node.command("PTTL", key)) === -1) keys.push(String(key));
  } while (cursor !== "0");
  return keys;
}
