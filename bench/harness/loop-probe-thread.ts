/** The thread of a loop probe: sends the time, on the clock of the process, from 1 to 3 ms apart, while the gate is open. */
import { parentPort, workerData } from "node:worker_threads";
import { Gate } from "./loop-probe-gate.js";

const LEAST_MS = 1;
const SPREAD_MS = 2;

const gate = new Gate(workerData as Int32Array<SharedArrayBuffer>);

for (;;) {
  gate.passed();
  gate.pause(LEAST_MS + SPREAD_MS * Math.random());
  parentPort!.postMessage(process.hrtime.bigint());
  gate.count();
}
