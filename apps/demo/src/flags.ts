// SPDX-License-Identifier: Apache-2.0
import { parseArgs } from "node:util";

/** A parsed command line. */
export interface Flags {
  /** Steps of each agent; infinite with `--forever`. */
  readonly steps: number;
  /** Least pause between two steps of an agent. */
  readonly pauseMs: number;
  readonly help: boolean;
}

/** The text that `--help` prints. */
export const help = `A matchmaker, two gridworld servers and eight random agents, playing over dm_env_rpc in
this terminal, and on a page whose address is the first line.

usage: npm start -- [options]

  --steps N    steps of each agent (200)
  --forever    play until Ctrl-C
  --help
`;

const durationMs = 20_000;
const slowestPauseMs = 100;

/**
 * Reads the command line.
 *
 * @throws Error that names the invalid flag, with the expected and the received value.
 */
export function readFlags(args: readonly string[]): Flags {
  const { values } = parseArgs({
    args: [...args],
    options: {
      steps: { type: "string", default: "200" },
      forever: { type: "boolean", default: false },
      help: { type: "boolean", default: false },
    },
  });
  if (!/^[1-9]\d{0,8}$/.test(values.steps)) {
    throw new Error(`--steps: expected an integer above 0, received "${values.steps}"; see --help`);
  }
  const steps = values.forever ? Number.POSITIVE_INFINITY : Number(values.steps);
  // The demo takes about the same time for any number of steps.
  const pauseMs = values.forever ? slowestPauseMs : Math.min(slowestPauseMs, durationMs / steps);
  return { steps, pauseMs, help: values.help };
}
