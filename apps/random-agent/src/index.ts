// SPDX-License-Identifier: Apache-2.0
/** Agents that act at random, to call from another program. */
export { type PlayOptions, type Progress, playRandomly, type Summary } from "./play.ts";
export { progressLine, summaryText } from "./report.ts";
export type { AgentTally } from "./tally.ts";
