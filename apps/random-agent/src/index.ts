// SPDX-License-Identifier: Apache-2.0
/** Agents that act at random, and their run loops, for use by other programs. */
export {
  type MatchedWorld,
  type MatchesSummary,
  type PlayOptions,
  type Progress,
  playRandomly,
  type Summary,
} from "./play.ts";
export { type PlayMatchesOptions, playMatches } from "./play-matches.ts";
export { type Policy, randomPolicy } from "./policy.ts";
export type { Random } from "./random.ts";
export { progressLine, summaryText } from "./report.ts";
export type { AgentTally, Played } from "./tally.ts";
