// SPDX-License-Identifier: Apache-2.0
/** Agents that act at random, for use by other programs. */
export {
  type MatchedWorld,
  type MatchesSummary,
  type PlayOptions,
  type Progress,
  playRandomly,
  type Summary,
} from "./play.ts";
export { type PlayMatchesOptions, playMatches } from "./play-matches.ts";
export { progressLine, summaryText } from "./report.ts";
export type { AgentTally, Played } from "./tally.ts";
