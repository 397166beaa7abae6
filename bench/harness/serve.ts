/**
 * A contestant's side of its process: one message in, one message out, until the parent is done or gone. Contestants have
 * processes of their own so that CPU time, heap and compiled code are theirs alone: code that several share is compiled for
 * the mixture, which once doubled what a peer cost.
 */
import type { Role, Sample } from "../report/types.js";

/** What the parent asks; `entry` and `round` mean something to the contestant only. */
export type Request<Entry, Round> =
  | { readonly do: "open"; readonly entry: Entry }
  | { readonly do: "round"; readonly round: Round }
  | { readonly do: "close" };

/** How a contestant is shown. */
export interface Face {
  readonly name: string;
  readonly role: Role;
}

/** What the process answers, once per request. */
export type Answer =
  | ({ readonly did: "open" } & Face)
  | { readonly did: "round"; readonly sample: Sample }
  | { readonly did: "close" }
  | { readonly did: "fail"; readonly reason: string };

/** A contestant that is open. */
export interface Contestant<Round> extends Face {
  play(round: Round): Sample | Promise<Sample>;
  close(): Promise<void>;
}

function answer(what: Answer): void {
  process.send?.(what);
}

function fail(error: unknown): void {
  answer({ did: "fail", reason: error instanceof Error ? (error.stack ?? error.message) : String(error) });
}

/** Answers the parent's requests with what `open` gives. */
export function serve<Entry, Round>(open: (entry: Entry) => Promise<Contestant<Round>>): void {
  let contestant: Contestant<Round> | undefined;

  const handle = async (request: Request<Entry, Round>): Promise<Answer> => {
    if (request.do === "open") {
      contestant = await open(request.entry);
      return { did: "open", name: contestant.name, role: contestant.role };
    }
    if (request.do === "close") {
      await contestant?.close();
      return { did: "close" };
    }
    if (contestant === undefined) throw new Error("nothing is open");
    return { did: "round", sample: await contestant.play(request.round) };
  };

  process.on("message", (request: Request<Entry, Round>) => {
    handle(request).then(answer, fail);
  });
  process.on("uncaughtException", fail);
  process.once("disconnect", () => process.exit());
}
