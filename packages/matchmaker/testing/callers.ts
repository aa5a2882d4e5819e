// SPDX-License-Identifier: Apache-2.0
import { type Code, ConnectError } from "@connectrpc/connect";
import { expect } from "vitest";
import type { AuthorizeCall } from "../src/services/authorize.ts";

/** Identifies each caller by the metadata `name`: the caller "operator" is an operator, all others are agents. */
export const byName: AuthorizeCall = ({ metadata }) => {
  const identity = metadata.get("name");
  if (identity === undefined) {
    return undefined;
  }
  return { identity, roles: identity === "operator" ? ["operator"] : ["agent"] };
};

/** Returns the options of a call that identify its caller to `byName`. */
export function as(name: string) {
  return { headers: { name } };
}

/** Returns a predicate for errors with a code, whose messages must match. */
export function refused(code: Code, message: RegExp): (error: unknown) => boolean {
  return (error) => {
    const { code: received, rawMessage } = ConnectError.from(error);
    expect(rawMessage).toMatch(message);
    return received === code;
  };
}
