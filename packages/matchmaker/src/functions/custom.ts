// SPDX-License-Identifier: Apache-2.0
import { shorten } from "@dm-env-rpc/transport/internal";
import { invalid } from "../errors/errors.ts";
import { checkCount, type FunctionReader } from "./profile-function.ts";

/** Reads `custom` of a profile: a function of the matchmaker's option `functions`. */
export const readCustom: FunctionReader<"custom"> = (
  { name, parameters = {} },
  profile,
  custom,
) => {
  const match = Object.hasOwn(custom, name) ? custom[name] : undefined;
  if (match === undefined) {
    const known = Object.keys(custom).map((known) => `"${known}"`);
    throw invalid(
      "custom match function",
      known.length === 0
        ? 'a name from the option "functions", which is empty'
        : `one of ${known.join(", ")}`,
      `"${shorten(name)}"`,
    );
  }
  checkCount("seats of a profile with a custom match function", profile.seats);
  return {
    match: { isCustom: true, run: (context) => match({ ...context, parameters }) },
    seats: profile.seats,
    largestParty: profile.seats,
    poolOfTeam: new Map(),
  };
};
