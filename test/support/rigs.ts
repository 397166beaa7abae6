/** Rigs of a scripted server and a keylane on it, for `await using`. */
import { EventEmitter, once } from "node:events";
import { Keylane } from "keylane";
import type { OpenOptions } from "keylane";
import { OK, Stub } from "./stub.js";

/** Options for one domain of all keys on one server that is no cluster. */
export function singleDomain(address: string, more: object = {}): OpenOptions {
  return {
    domains: { all: { prefixes: [""], nodes: [address], mode: "single" } },
    commandTimeoutMs: 5000,
    ...more,
  };
}

/** A server that answers GET (with the key) only once it is told to. */
export interface SlowServer extends AsyncDisposable {
  readonly stub: Stub;
  answer(): void;
}

export async function slowServer(): Promise<SlowServer> {
  const stub = await Stub.start({ cluster: false });
  const gate = new EventEmitter();
  const told = once(gate, "open");
  stub.answer("GET", async ({ args }) => {
    await told;
    return args[1]!;
  });
  stub.answer("SET", () => OK);
  return { stub, answer: () => void gate.emit("open"), [Symbol.asyncDispose]: () => stub.stop() };
}

type AllOnOne = { readonly all: { readonly prefixes: readonly [""]; readonly nodes: readonly [string] } };

/** Two stubs that share the slots, and a keylane that has `a` as its seed. */
export interface StubPair extends AsyncDisposable {
  readonly a: Stub;
  readonly b: Stub;
  readonly lanes: Keylane<AllOnOne>;
}

export async function stubPair(more: object = {}): Promise<StubPair> {
  const [a, b] = (await Stub.cluster(2)) as [Stub, Stub];
  const lanes = await Keylane.open({ domains: { all: { prefixes: [""], nodes: [a.address] } }, ...more });
  const end = async (): Promise<void> => {
    await lanes.close({ timeoutMs: 1 });
    await Promise.all([a.stop(), b.stop()]);
  };
  return { a, b, lanes, [Symbol.asyncDispose]: end };
}
