// SPDX-License-Identifier: Apache-2.0
import { shorten } from "@dm-env-rpc/transport/internal";
import { invalid } from "../errors/errors.ts";

/** Maximum length of an id or a name that callers and servers choose. */
export const maxNameLength = 200;

/** Maximum length of a type of world. A server appends a hyphen and a number to it, which names a new world. */
export const maxWorldTypeLength: number = maxNameLength - 20;

/** Maximum length of a secret. */
const maxSecretLength = 1_000;

/**
 * Checks the length of an id or a name, which may be empty.
 *
 * @throws DmEnvRpcError INVALID_ARGUMENT naming the field.
 */
export function checkName(field: string, name: string, most: number = maxNameLength): void {
  if (name.length > most) {
    const received = `${name.length} ("${shorten(name)}"); use a shorter name`;
    throw invalid(field, `at most ${most} characters`, received);
  }
}

/**
 * Checks the length of a caller's secret, which may be empty. The error does not contain the secret.
 *
 * @throws DmEnvRpcError INVALID_ARGUMENT naming the field.
 */
export function checkSecret(field: string, { length }: string): void {
  if (length > maxSecretLength) {
    const received = `${length}; use a shorter secret`;
    throw invalid(field, `at most ${maxSecretLength} characters`, received);
  }
}
