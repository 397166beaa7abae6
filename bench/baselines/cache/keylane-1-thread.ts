/** One thread of keylane-reading.ts. */
import { reading } from "./keylane-reading.js";

export const contestant = reading("keylane peek, 1 thread", 1);
