// SPDX-License-Identifier: Apache-2.0
import { MatchFunctionSchema, type MatchProfile } from "@dm-env-rpc/protocol/matchmaker";
import { invalid } from "../errors/errors.ts";
import { readByCount } from "./by-count.ts";
import { readCustom } from "./custom.ts";
import type {
  FunctionKind,
  FunctionReader,
  MatchFunctions,
  ParametersOf,
  ProfileFunction,
} from "./profile-function.ts";
import { readSkillWindow } from "./skill-window.ts";
import { readTeams } from "./teams.ts";

/** Readers of all functions that a profile can name. */
const readers: { readonly [K in FunctionKind]: FunctionReader<K> } = {
  byCount: readByCount,
  teams: readTeams,
  skillWindow: readSkillWindow,
  custom: readCustom,
};

/**
 * Returns the function that a profile names.
 *
 * @throws DmEnvRpcError INVALID_ARGUMENT if the function is unknown, or can never make a match.
 */
export function matchFunctionOf(profile: MatchProfile, custom: MatchFunctions): ProfileFunction {
  const chosen = profile.matchFunction?.function;
  if (chosen?.case === undefined) {
    const known = MatchFunctionSchema.fields.map(({ name }) => name);
    throw invalid("match_function", `one of ${known.join(", ")}`, "none");
  }
  const read = <K extends FunctionKind>(kind: K, parameters: ParametersOf<K>): ProfileFunction =>
    readers[kind](parameters, profile, custom);
  return read(chosen.case, chosen.value);
}
