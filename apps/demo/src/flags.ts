// SPDX-License-Identifier: Apache-2.0
import { parseArgs } from "node:util";

/** The length and speed of a play. */
export interface Pace {
  /** Steps of each agent. */
  readonly steps: number;
  /** Minimum pause between two steps of an agent. */
  readonly pauseMs: number;
}

/** A parsed command line. */
export interface Flags extends Pace {
  readonly help: boolean;
}

/** The text that `--help` prints. */
export const help = `A matchmaker, two gridworld servers and eight agents, four greedy and four random, that
play over dm_env_rpc in this terminal and on a page. The first line has the page's address.
In a terminal, and while the page is open, the agents play on.

usage: npm start -- [options]

  --steps N    steps of each agent (200)
  --forever    play until Ctrl-C
  --help
`;

const durationMs = 20_000;
const slowestPauseMs = 100;

/** A play that ends only when it is interrupted. */
export const endless: Pace = { steps: Number.POSITIVE_INFINITY, pauseMs: slowestPauseMs };

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
  if (values.forever) {
    return { ...endless, help: values.help };
  }
  const steps = Number(values.steps);
  // Shorter pauses keep the duration the same for more steps.
  return { steps, pauseMs: Math.min(slowestPauseMs, durationMs / steps), help: values.help };
}
