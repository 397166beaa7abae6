/**
 * No client at all: the value comes back as a promise that is resolved already. What this row costs is the closed loop's
 * own share in every other row.
 */
import type { Baseline } from "./baseline.js";

export const baseline: Baseline = {
  name: "harness alone (resolved promise)",
  role: "overhead",
  kind: "single",
  open({ set }) {
    const { keys, values, order } = set;
    let next = 0;
    return Promise.resolve({
      get(key: string) {
        const which = order[next];
        next += 1;
        if (next === order.length) next = 0;
        return Promise.resolve(keys[which] === key ? values[which] : null);
      },
      close: () => Promise.resolve(),
    });
  },
};
