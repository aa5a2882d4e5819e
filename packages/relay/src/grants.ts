// SPDX-License-Identifier: Apache-2.0
import { createHash, timingSafeEqual } from "node:crypto";

/** Permission for programs to connect with a token. */
export interface ProgramGrant {
  /**
   * Name of the program: letters, digits, `.`, `_` and `-`. If `maxPrograms` is more than 1, each program's name is
   * this name with a number: `game/1`.
   */
  readonly name: string;
  /** The secret, of at least 16 characters. */
  readonly token: string;
  /** Maximum number of programs with this token, such as tabs of one game. Default 1. */
  readonly maxPrograms?: number | undefined;
}

/** Finds the grant of a token; undefined for an unknown one. Tokens are compared in constant time. */
export type FindGrant = (token: string) => ProgramGrant | undefined;

const minTokenLength = 16;

/**
 * Checks grants, and returns the function that finds the grant of a token.
 *
 * @throws RangeError for a malformed or duplicate name or token.
 */
export function grantFinder(grants: readonly ProgramGrant[]): FindGrant {
  const names = new Set<string>();
  const tokens = new Set<string>();
  for (const { name, token, maxPrograms = 1 } of grants) {
    if (!/^[\w.-]{1,64}$/.test(name) || names.has(name)) {
      throw new RangeError(
        `name of a program: expected 1 to 64 letters, digits, ".", "_" or "-", each name once, received ${JSON.stringify(name)}`,
      );
    }
    if (token.length < minTokenLength || tokens.has(token)) {
      throw new RangeError(
        `token of the program "${name}": expected a token of its own, of at least ${minTokenLength} characters, received ${tokens.has(token) ? "the token of another program" : `${token.length} characters`}`,
      );
    }
    if (!Number.isInteger(maxPrograms) || maxPrograms < 1) {
      throw new RangeError(
        `maxPrograms of "${name}": expected a whole number of at least 1, received ${maxPrograms}`,
      );
    }
    names.add(name);
    tokens.add(token);
  }
  const known = grants.map((grant) => ({ grant, digest: digestOf(grant.token) }));
  return (token) => {
    const digest = digestOf(token);
    let found: ProgramGrant | undefined;
    for (const entry of known) {
      if (timingSafeEqual(entry.digest, digest)) {
        found = entry.grant;
      }
    }
    return found;
  };
}

function digestOf(token: string): Buffer {
  return createHash("sha256").update(token).digest();
}
