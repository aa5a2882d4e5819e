// SPDX-License-Identifier: Apache-2.0
import { parseArgs } from "node:util";

/** A parsed command line. */
export type Command =
  | { readonly kind: "help" }
  | { readonly kind: "version" }
  | { readonly kind: "wrong"; readonly message: string }
  | {
      readonly kind: "play";
      readonly address: string;
      readonly agents: number;
      readonly world: string | undefined;
      /** Addresses of matchmakers, instead of `address` and `world`. */
      readonly matchmakers: readonly string[];
      readonly steps: number;
      readonly seed: bigint | undefined;
      readonly json: boolean;
    };

/** The text of `--help`. */
export const help = `Plays a world of a dm_env_rpc server with agents that act at random.

Usage: dm-env-rpc-random-agent [options]

  --address HOST:PORT  server to play on                        (127.0.0.1:8980)
  --agents N           number of agents                         (1)
  --world NAME         world to join; by default one is created, and destroyed at the end
  --matchmaker HOST:PORT
                       matchmaker that assigns a world to each agent; repeat it for
                       matchmakers that share a store
  --steps N            steps of each agent                      (1000)
  --seed N             seed of the agents' choices              (drawn, shown in the summary)
  --json               print the summary as one JSON object
  --help               print this
  --version            print the version
`;

const flags = {
  address: { type: "string" },
  agents: { type: "string" },
  world: { type: "string" },
  matchmaker: { type: "string", multiple: true },
  steps: { type: "string" },
  seed: { type: "string" },
  json: { type: "boolean" },
  help: { type: "boolean" },
  version: { type: "boolean" },
} as const;

const maxAgents = 10_000;

/** Reads the command line. An invalid one becomes a message of one line. */
export function parseCommand(args: readonly string[]): Command {
  const given: Partial<Record<keyof typeof flags, string>> = {};
  const matchmakers: string[] = [];
  const { tokens } = parseArgs({ args: [...args], options: flags, strict: false, tokens: true });
  for (const token of tokens) {
    if (token.kind === "positional") {
      return wrong(`expected flags only, received "${token.value}"`);
    }
    if (token.kind !== "option") {
      continue;
    }
    const { name, rawName, value } = token;
    if (!isFlag(name)) {
      return wrong(`unknown flag ${rawName}`);
    }
    if (flags[name].type === "string" && value === undefined) {
      return wrong(`expected a value after ${rawName}, received none`);
    }
    if (flags[name].type === "boolean" && value !== undefined) {
      return wrong(`expected no value for ${rawName}, received "${value}"`);
    }
    given[name] = value ?? "";
    if (name === "matchmaker") {
      matchmakers.push(given[name]);
    }
  }
  if (given.help !== undefined) {
    return { kind: "help" };
  }
  if (given.version !== undefined) {
    return { kind: "version" };
  }
  const { address = "127.0.0.1:8980", world } = given;
  if (given.matchmaker !== undefined && (given.address ?? world) !== undefined) {
    return wrong("expected either --matchmaker, or --address and --world, received both");
  }
  for (const [flag, addresses] of [
    ["--address", [address]],
    ["--matchmaker", matchmakers],
  ] as const) {
    const bad = addresses.find((each) => !isAddress(each));
    if (bad !== undefined) {
      return wrong(expected(flag, "HOST:PORT with a port from 1 to 65535", bad));
    }
  }
  const agents = wholeNumber(given.agents ?? "1", 1, maxAgents);
  if (agents === undefined) {
    return wrong(expected("--agents", `a whole number from 1 to ${maxAgents}`, given.agents));
  }
  const steps = wholeNumber(given.steps ?? "1000", 1, Number.MAX_SAFE_INTEGER);
  if (steps === undefined) {
    return wrong(expected("--steps", "a whole number of at least 1", given.steps));
  }
  const seed = given.seed === undefined ? undefined : wholeSeed(given.seed);
  if (seed === null) {
    return wrong(expected("--seed", "a whole number from 0 to 2^64 - 1", given.seed));
  }
  const json = given.json !== undefined;
  return { kind: "play", address, agents, world, matchmakers, steps, seed, json };
}

function wrong(message: string): Command {
  return { kind: "wrong", message: `${message}; see --help` };
}

function expected(flag: string, what: string, received: string | undefined): string {
  return `expected ${what} for ${flag}, received "${received}"`;
}

function isFlag(name: string): name is keyof typeof flags {
  return Object.hasOwn(flags, name);
}

function wholeNumber(text: string, min: number, max: number): number | undefined {
  const value = /^\d+$/.test(text) ? Number(text) : Number.NaN;
  return value >= min && value <= max ? value : undefined;
}

function wholeSeed(text: string): bigint | null {
  return /^\d+$/.test(text) && BigInt(text) < 2n ** 64n ? BigInt(text) : null;
}

function isAddress(text: string): boolean {
  const port = /^(?:https?:\/\/)?(?:\[[0-9a-fA-F:.%]+\]|[^\s:/@]+):(\d+)\/?$/.exec(text)?.[1];
  return port !== undefined && wholeNumber(port, 1, 65_535) !== undefined;
}
