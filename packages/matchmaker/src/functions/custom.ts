// SPDX-License-Identifier: Apache-2.0
import { invalid, shorten } from "../errors.ts";
import { checkCount, type FunctionReader } from "./profile-function.ts";

/** Reads `custom` of a profile: a function that the matchmaker was given. */
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
        ? "one that the matchmaker was given, and it was given none"
        : `one of ${known.join(", ")}`,
      `"${shorten(name)}"`,
    );
  }
  checkCount("seats, which a custom match function needs,", profile.seats);
  return {
    match: { isCustom: true, run: (context) => match({ ...context, parameters }) },
    seats: profile.seats,
    largestParty: profile.seats,
    poolOfTeam: new Map(),
  };
};
