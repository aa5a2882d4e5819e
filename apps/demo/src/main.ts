// SPDX-License-Identifier: Apache-2.0
import { randomBytes } from "node:crypto";
import { constants } from "node:os";
import { setTimeout } from "node:timers/promises";
import {
  type MatchesSummary,
  type Progress,
  playMatches,
  progressLine,
  randomPolicy,
  summaryText,
} from "@dm-env-rpc/random-agent";
import { boardObservations } from "./board.ts";
import { createBoards } from "./boards.ts";
import { endless, help, type Pace, readFlags } from "./flags.ts";
import { greedyPolicy } from "./greedy.ts";
import { boardProfile, operatorOf, tell } from "./matchmaking.ts";
import { servePage } from "./page.ts";
import { createScreen, type Screen } from "./screen.ts";
import { startServer } from "./server-process.ts";

const agents = 8;

const isGreedy = (agent: number): boolean => agent % 2 === 1;

const nameOf = (agent: number): string => `${isGreedy(agent) ? "greedy" : "random"} ${agent}`;

const next = `next: npm start -- --forever    and take a seat on the page
      docs/expose-your-game.md    serve your own simulation
      docs/write-an-agent.md      play it from TypeScript or Python
`;

/** Ends the demo before the first step, without output, and with the exit code of a program that a signal ended. */
class Interruption extends Error {
  readonly exitCode: number;

  constructor(signal: NodeJS.Signals) {
    super(`ended by ${signal}`);
    this.exitCode = 128 + constants.signals[signal];
  }
}

async function main(): Promise<void> {
  const flags = readFlags(process.argv.slice(2));
  if (flags.help) {
    process.stdout.write(help);
    return;
  }
  const ended = new AbortController();
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    process.on(signal, () => {
      const interruption = new Interruption(signal);
      // At the second signal, it ends without waiting.
      if (ended.signal.aborted) {
        process.exit(interruption.exitCode);
      }
      ended.abort(interruption);
    });
  }
  const screen = createScreen(process.stdout);
  await using page = await servePage();
  screen.say(`watch at ${page.url}`);
  const quiet = ["--log-level", "silent"];
  await using matchmaker = await startServer("matchmaker-server", quiet, ended.signal);
  screen.say(`matchmaker at ${matchmaker.address}: any agent can ask it for a match`);
  const boards = ["--page", "--max-worlds", "1", "--matchmaker", matchmaker.address];
  await using first = await startServer("gridworld-server", boards, ended.signal);
  await using second = await startServer("gridworld-server", boards, ended.signal);
  page.add(first.address);
  page.add(second.address);
  const lost = Promise.race([matchmaker, first, second].map((server) => server.lost));
  lost.catch((error: unknown) => ended.abort(error));

  const operator = operatorOf(matchmaker.address);
  const telling = tell(operator, screen.say, ended.signal);
  try {
    await operator.putProfile({ profile: boardProfile() });
    ended.signal.throwIfAborted();
    screen.say(screen.legend);
    const playing = play(matchmaker.address, flags, screen, ended.signal);
    const summary = await Promise.race([playing, lost]);
    process.stdout.write(`\n${summaryText(summary)}${returnsText(summary)}\n${next}`);
    const isTerminal = process.stdin.isTTY;
    if ((isTerminal || page.open) && !ended.signal.aborted) {
      screen.say(
        isTerminal
          ? `\nthe agents play on at ${page.url} until Ctrl-C`
          : "\nthe page is open: the agents play on until it is closed, or Ctrl-C",
      );
      const closed = new AbortController();
      using _polling = poll(() => isTerminal || page.open || closed.abort());
      const signal = AbortSignal.any([ended.signal, closed.signal]);
      await Promise.race([play(matchmaker.address, endless, screen, signal), lost]);
    }
  } finally {
    ended.abort();
    await telling;
  }
}

/** Calls a function twice a second until it is disposed. */
function poll(check: () => void): Disposable {
  const timer = setInterval(check, 500);
  return { [Symbol.dispose]: () => clearInterval(timer) };
}

/** Compares the mean returns of greedy and random agents in one line. */
function returnsText({ agents }: MatchesSummary): string {
  const mean = (some: MatchesSummary["agents"]): string => {
    const returns = some.flatMap(({ meanReturn }) => meanReturn ?? []);
    return returns.length === 0
      ? "-"
      : (returns.reduce((sum, each) => sum + each, 0) / returns.length).toFixed(3);
  };
  const greedy = agents.filter(({ agent }) => isGreedy(agent));
  const random = agents.filter(({ agent }) => !isGreedy(agent));
  return `  mean return of greedy agents ${mean(greedy)}, of random agents ${mean(random)}\n`;
}

/** Plays with all agents and shows their boards. */
async function play(
  matchmaker: string,
  { steps, pauseMs }: Pace,
  screen: Screen,
  signal: AbortSignal,
): Promise<MatchesSummary> {
  const boards = createBoards(nameOf);
  const taken = new Array<number>(agents).fill(0);
  let progress: Progress | undefined;
  let began: number | undefined;
  return await playMatches({
    matchmakers: [matchmaker],
    agents,
    steps,
    seed: randomBytes(8).readBigUInt64LE(),
    observations: boardObservations,
    policyOf: (agent, environment, random) =>
      isGreedy(agent) ? greedyPolicy(random) : randomPolicy(environment, random),
    signal,
    onStart: (started) => {
      progress = started;
    },
    onTimeStep: (agent, step, match) => {
      const now = performance.now();
      began ??= now;
      if (boards.note(agent, step, match) && progress !== undefined) {
        const line = progressLine(progress, (now - began) / 1_000, process.stdout.isTTY);
        screen.show(boards.all(), line);
      }
      const count = (taken[agent] ?? 0) + 1;
      taken[agent] = count;
      const wait = began + count * pauseMs - now;
      return wait > 1 ? setTimeout(wait) : undefined;
    },
  });
}

try {
  await main();
} catch (error) {
  if (error instanceof Interruption) {
    process.exitCode = error.exitCode;
  } else {
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
    process.exitCode = 1;
  }
}
