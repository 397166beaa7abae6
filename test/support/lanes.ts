/** Opening keylane in tests, and asserting how a call failed. */
import assert from "node:assert/strict";
import { after } from "node:test";
import { Keylane, KeylaneError } from "keylane";
import type { ErrorContext, KeylaneErrorCode, OpenOptions } from "keylane";
import { type Fixture, useFixture } from "./fixtures.js";

/** An open keylane for the tests of a suite. `options` is called when its servers run, so it may read other fixtures. */
export function useLanes<const O extends OpenOptions>(options: () => O): Fixture<Keylane<O["domains"]>> {
  return useFixture(
    () => Keylane.open(options()),
    (lanes) => lanes.close({ timeoutMs: 500 }),
  );
}

/** Opens for one test, and closes again when the test in which it was called is over. */
export async function openLanes<const O extends OpenOptions>(options: O): Promise<Keylane<O["domains"]>> {
  const lanes = await Keylane.open(options);
  after(() => lanes.close({ timeoutMs: 500 }));
  return lanes;
}

/** What an error of a call must say besides its code. */
export type Expected = Omit<ErrorContext, "cause"> & { readonly message?: RegExp };

/** Resolves to the KeylaneError with which a call rejected; fails when it resolved or rejected otherwise. */
export async function rejection(
  promise: Promise<unknown>,
  code: KeylaneErrorCode,
  expected: Expected = {},
): Promise<KeylaneError> {
  const [result] = await Promise.allSettled([promise]);
  if (result.status === "fulfilled") assert.fail(`expected ${code}, got a value: ${String(result.value)}`);
  return errorIs(result.reason, code, expected);
}

/** As `rejection`, for a call that throws at once. */
export function thrown(call: () => unknown, code: KeylaneErrorCode, expected: Expected = {}): KeylaneError {
  try {
    call();
  } catch (error) {
    return errorIs(error, code, expected);
  }
  return assert.fail(`expected ${code}, nothing was thrown`);
}

/** Asserts that `error` is a KeylaneError of this code and context, and returns it. */
export function errorIs(error: unknown, code: KeylaneErrorCode, expected: Expected = {}): KeylaneError {
  if (!(error instanceof KeylaneError)) assert.fail(`not a KeylaneError: ${String((error as Error)?.stack ?? error)}`);
  const { message, ...context } = expected;
  const seen = error.toJSON() as unknown as Record<string, unknown>;
  const wanted = { code, ...context } as Record<string, unknown>;
  const picked = Object.fromEntries(Object.keys(wanted).map((name) => [name, seen[name]]));
  assert.deepEqual(picked, wanted, error.message);
  if (message !== undefined) assert.match(error.message, message);
  return error;
}
