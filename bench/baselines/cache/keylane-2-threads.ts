/** Two threads of keylane-reading.ts. */
import { reading } from "./keylane-reading.js";

export const contestant = reading("keylane peek, 2 threads", 2);
