// SPDX-License-Identifier: Apache-2.0
import { invalid, shorten } from "./errors.ts";

/** Maximum length of an id or a name that callers and servers choose. */
export const maxNameLength = 200;

/**
 * Checks the length of an id or a name, which may be empty.
 *
 * @throws DmEnvRpcError INVALID_ARGUMENT naming the field.
 */
export function checkName(field: string, name: string): void {
  if (name.length > maxNameLength) {
    const received = `${name.length} ("${shorten(name)}"); use a shorter name`;
    throw invalid(field, `at most ${maxNameLength} characters`, received);
  }
}
