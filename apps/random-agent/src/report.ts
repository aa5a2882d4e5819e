// SPDX-License-Identifier: Apache-2.0
import type { Progress, Summary } from "./play.ts";
import { type AgentTally, total } from "./tally.ts";

const barWidth = 24;

/** How far a play is, in one line; with a bar for terminals. */
export function progressLine(progress: Progress, seconds: number, bar: boolean): string {
  const { steps, sequences, meanReturn } = total(progress.agents);
  const part = Math.min(1, steps / progress.expectedSteps);
  const filled = Math.round(part * barWidth);
  const drawn = bar ? `[${"█".repeat(filled)}${"░".repeat(barWidth - filled)}] ` : "";
  const percent = `${Math.floor(part * 100)}%`.padStart(4);
  const rate = seconds > 0 ? steps / seconds : 0;
  return `${drawn}${percent}  ${count(steps, "step")}  ${whole(rate)} steps/s  ${count(sequences, "sequence")}  mean return ${mean(meanReturn)}`;
}

/** The summary for people: a line for each agent, and one for all. */
export function summaryText(summary: Summary): string {
  const agents = summary.agents.length;
  const head = `${count(agents, "agent")} in world "${summary.world}"${summary.endedEarly ? ", ended early" : ""}, seed ${summary.seed}`;
  const lines = summary.agents.map((tally) => `  agent ${tally.agent}  ${figures(tally)}`);
  const all = `  total    ${figures(summary)}, ${summary.seconds.toFixed(2)} s, ${whole(summary.stepsPerSecond)} steps/s`;
  return [head, ...lines, all, ""].join("\n");
}

/** The summary for programs: one JSON object on one line; a seed is text, for it may not fit a number. */
export function summaryJson(summary: Summary): string {
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
  return value === null ? "-" : value.toFixed(4);
}
