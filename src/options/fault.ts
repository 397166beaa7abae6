/** The one way in which options are refused. */
import { KeylaneError } from "../errors.js";

/** `message` begins with the path of what is wrong. */
export function fault(message: string): KeylaneError {
  return new KeylaneError("KEYLANE_ERR_OPTIONS", message);
}
