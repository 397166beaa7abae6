/** A process of the fleet that takes and gives back what it is told to, with a keylane of its own. */
import { Keylane } from "keylane";
import type { Cap, OpenOptions } from "keylane";

/** What the process is asked; the first message is its options. */
export interface FleetRequest {
  readonly call: "take" | "refund" | "reserve" | "release" | "close";
  readonly user: string;
  readonly caps: readonly Cap[];
  readonly id: string;
}

async function serve(options: OpenOptions): Promise<void> {
  const lanes = await Keylane.open(options);
  const answer = async ({ call, user, caps, id }: FleetRequest): Promise<void> => {
    if (call !== "close") {
      process.send!(await lanes.caps[call](user, caps, { id }));
      return;
    }
    await lanes.close();
    process.disconnect();
  };
  process.on("message", (request: FleetRequest) => void answer(request));
  process.send!("ready");
}

process.once("message", (options: OpenOptions) => void serve(options));
