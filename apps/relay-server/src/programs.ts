// SPDX-License-Identifier: Apache-2.0
import type { ProgramGrant } from "@dm-env-rpc/relay";

/**
 * Parses the programs that may dial in: on each line a name, a token and, if several programs share the token, their
 * maximum number. Empty lines and lines that begin with # are ignored.
 *
 * @throws Error that names the malformed line.
 */
export function readPrograms(text: string, file: string): readonly ProgramGrant[] {
  const grants: ProgramGrant[] = [];
  for (const [index, line] of text.split("\n").entries()) {
    const words = line.trim().split(/\s+/);
    const [name = "", token, count = "1"] = words;
    if (name === "" || name.startsWith("#")) {
      continue;
    }
    if (token === undefined || words.length > 3 || !/^[1-9]\d*$/.test(count)) {
      throw new Error(
        `${file}: line ${index + 1}: expected a name, a token and perhaps a number of programs`,
      );
    }
    grants.push({ name, token, maxPrograms: Number(count) });
  }
  return grants;
}
