/** Parsers of command-line arguments that several commands share. */
import { InvalidArgumentError } from "commander";

/** A parser of whole numbers from `least` to `most`. */
export function integer(least: number, most: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (text.trim() !== "" && Number.isInteger(value) && value >= least && value <= most) return value;
    throw new InvalidArgumentError(`It must be a whole number from ${least} to ${most}.`);
  };
}
