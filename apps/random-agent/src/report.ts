// SPDX-License-Identifier: Apache-2.0
import type { MatchedWorld, MatchesSummary, Progress, Summary } from "./play.ts";
import { type AgentTally, total } from "./tally.ts";

/** Keeps a progress line within 80 columns. */
const barWidth = 8;
const maxWorldLines = 10;

/** Formats the progress of a play as one line, with a bar for terminals. */
export function progressLine(progress: Progress, seconds: number, bar: boolean): string {
  const { steps, sequences, meanReturn } = total(progress.agents);
  const part = Math.min(1, steps / progress.expectedSteps);
  const filled = Math.round(part * barWidth);
  const drawn = bar ? `[${"█".repeat(filled)}${"░".repeat(barWidth - filled)}] ` : "";
  const percent = `${Math.floor(part * 100)}%`.padStart(4);
  const rate = seconds > 0 ? steps / seconds : 0;
  return `${drawn}${percent}  ${count(steps, "step")}  ${whole(rate)} steps/s  ${count(sequences, "sequence")}  mean return ${mean(meanReturn)}`;
}

/** Formats a summary as text: a line for each agent, and one for all. */
export function summaryText(summary: Summary | MatchesSummary): string {
  const agents = summary.agents.length;
  const place = "world" in summary ? `world "${summary.world}"` : placesText(summary.worlds);
  const head = `${count(agents, "agent")} in ${place}${summary.endedEarly ? ", ended early" : ""}, seed ${summary.seed}`;
  const worlds = "worlds" in summary ? worldLines(summary.worlds) : [];
  const lines = summary.agents.map((tally) => `  agent ${tally.agent}  ${figures(tally)}`);
  const all = `  total    ${figures(summary)}`;
  const pace = `  ${summary.seconds.toFixed(2)} s, ${whole(summary.stepsPerSecond)} steps/s`;
  return [head, ...worlds, ...lines, all, pace, ""].join("\n");
}

function placesText(worlds: readonly MatchedWorld[]): string {
  const servers = new Set(worlds.map(({ address }) => address)).size;
  return `${count(worlds.length, "world")} on ${count(servers, "server")}`;
}

function worldLines(worlds: readonly MatchedWorld[]): string[] {
  const lines = worlds
    .slice(0, maxWorldLines)
    .map(({ address, world, agents }) => `  ${world} at ${address}: agents ${agents.join(", ")}`);
  const more = worlds.length - lines.length;
  return more > 0 ? [...lines, `  and ${count(more, "more world")}`] : lines;
}

/** Formats a summary as one line of JSON; the seed is a string, because a number may not hold it. */
export function summaryJson(summary: Summary | MatchesSummary): string {
  return `${JSON.stringify({ ...summary, seed: String(summary.seed) })}\n`;
}

function figures({ steps, sequences, meanReturn }: Omit<AgentTally, "agent">): string {
  return `${count(steps, "step")}, ${count(sequences, "sequence")} completed, mean return ${mean(meanReturn)}`;
}

function count(value: number, noun: string): string {
  return `${whole(value)} ${noun}${value === 1 ? "" : "s"}`;
}

function whole(value: number): string {
  return Math.round(value).toLocaleString("en-US");
}

function mean(value: number | null): string {
  return value === null ? "-" : value.toFixed(3);
}
