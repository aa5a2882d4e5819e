// SPDX-License-Identifier: Apache-2.0
import type { MatchProfile } from "@dm-env-rpc/protocol/matchmaker";
import { invalid } from "../errors.ts";
import { readByCount } from "./by-count.ts";
import { readCustom } from "./custom.ts";
import type { FunctionReader, MatchFunctions, ProfileFunction } from "./profile-function.ts";
import { readSkillWindow } from "./skill-window.ts";
import { readTeams } from "./teams.ts";

/** All that a profile can name. */
const readers: readonly FunctionReader[] = [readByCount, readTeams, readSkillWindow, readCustom];

/**
 * The function that a profile names.
 *
 * @throws DmEnvRpcError INVALID_ARGUMENT for one that can never make a match, or that nobody knows.
 */
export function matchFunctionOf(profile: MatchProfile, custom: MatchFunctions): ProfileFunction {
  const chosen = profile.matchFunction?.function;
  for (const read of readers) {
    const found = chosen && read(chosen, profile, custom);
    if (found !== undefined) return found;
  }
  throw invalid("match_function", "by_count, teams, skill_window or custom", "none");
}
