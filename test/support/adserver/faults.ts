/**
 * Loaded before a program (`node --import`): at SIGUSR2 one of its worker threads ends, the longest-lived one, in the next of four
 * ways. The program itself knows nothing of it.
 */
import { syncBuiltinESMExports } from "node:module";
import { isMainThread } from "node:worker_threads";
import { WAYS, endWorker, runningWorkers } from "../pool/workers.js";

if (isMainThread) {
  // Threads that the program's modules start are to be known too.
  syncBuiltinESMExports();
  let ended = 0;
  process.on("SIGUSR2", () => {
    const [worker] = runningWorkers();
    if (worker === undefined) return;
    void endWorker(worker, WAYS[ended % WAYS.length]!);
    ended += 1;
  });
}
