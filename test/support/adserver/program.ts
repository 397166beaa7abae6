/** The example ad server as a program under test, and load for it. */
import { once } from "node:events";
import { Agent, get } from "node:http";
import { fileURLToPath } from "node:url";
import { Random } from "../chaos/random.js";
import { runProgram } from "../processes.js";
import type { Program } from "../processes.js";

const PROGRAM = fileURLToPath(new URL("../../../bench/adserver/server.js", import.meta.url));
const FAULTS = new URL("faults.js", import.meta.url).href;

/** What the server tells about itself. */
export interface ServerStats {
  readonly inFlight: number;
  readonly answered: number;
  readonly refused: number;
}

/** One answer; status 0 when the connection was refused or broke. */
export interface AdAnswer {
  readonly user: string;
  readonly impression: string;
  readonly status: number;
  readonly campaign: number | null;
  /** Why, where there is no ad. */
  readonly reason: string;
}

export class AdServer {
  readonly program: Program;
  readonly #port: number;
  readonly #agent = new Agent({ keepAlive: true });

  private constructor(program: Program, port: number) {
    this.program = program;
    this.#port = port;
  }

  /** Starts the server with what its program takes; resolves when it listens. `folder` is for its files. */
  static async start(options: object, folder: string): Promise<AdServer> {
    const changes = { NODE_OPTIONS: `--import ${FAULTS}` };
    const program = runProgram(PROGRAM, [JSON.stringify({ ...options, directory: folder })], folder, changes);
    const { port } = JSON.parse(await program.firstLine) as { port: number };
    return new AdServer(program, port);
  }

  /** Asks for an ad. Never rejects. */
  async ask(user: string, impression: string): Promise<AdAnswer> {
    const { status, body } = await this.#get(`/ad?user=${user}&impression=${impression}`);
    const { campaign = null, reason = "" } = JSON.parse(body) as Partial<AdAnswer>;
    return { user, impression, status, campaign, reason };
  }

  /** Null when it takes no connections. */
  async stats(): Promise<ServerStats | null> {
    const { status, body } = await this.#get("/stats");
    return status === 200 ? (JSON.parse(body) as ServerStats) : null;
  }

  /** Ends one of its threads. */
  endThread(): void {
    this.program.kill("SIGUSR2");
  }

  /**
   * `width` users' browsers ask for ads while `goesOn`, and ask again for an impression that was not answered. Gives the last
   * answer to each impression, and why others were asked for again, with how often.
   */
  async load(
    users: number,
    width: number,
    goesOn: () => boolean,
  ): Promise<{ answers: AdAnswer[]; repeats: Record<string, number> }> {
    const random = new Random(width);
    const answers: AdAnswer[] = [];
    const repeats: Record<string, number> = {};
    const flow = async (number: number): Promise<void> => {
      for (let at = 0; goesOn(); at += 1) {
        const user = `user:${random.between(0, users - 1)}`;
        let answer = await this.ask(user, `${number}.${at}`);
        while (answer.status !== 200) {
          const why = answer.reason.replaceAll(/\d+/g, "n");
          repeats[why] = (repeats[why] ?? 0) + 1;
          answer = await this.ask(user, `${number}.${at}`);
        }
        answers.push(answer);
      }
    };
    await Promise.all(Array.from({ length: width }, (_, number) => flow(number)));
    return { answers, repeats };
  }

  /** Closes the connections of `ask`. */
  disconnect(): void {
    this.#agent.destroy();
  }

  async #get(path: string): Promise<{ status: number; body: string }> {
    const request = get({ host: "127.0.0.1", port: this.#port, path, agent: this.#agent });
    try {
      const [response] = (await once(request, "response")) as [AsyncIterable<Buffer> & { statusCode: number }];
      let body = "";
      for await (const chunk of response) body += chunk.toString();
      return { status: response.statusCode, body };
    } catch (error) {
      return { status: 0, body: JSON.stringify({ reason: (error as NodeJS.ErrnoException).code }) };
    }
  }
}
