// SPDX-License-Identifier: Apache-2.0
import { parseArgs } from "node:util";
import { type Room, rooms, variants } from "./attacks/index.ts";

/** The parsed command line. */
export interface Options {
  readonly attacks: readonly { readonly room: Room; readonly attack: string }[];
  /** Short attacks and loose bars for times, for CI. */
  readonly quick: boolean;
  readonly help: boolean;
}

const all: Options["attacks"] = (Object.keys(rooms) as Room[]).flatMap((room) =>
  Object.keys(rooms[room]).map((attack) => ({ room, attack })),
);

/** The help text. */
export const usage: string = `Usage: npm run attack -- [NAME...] [--quick]

Attacks a gridworld server with default limits, in its own process, beside an agent in lockstep, and
prints a row for each attack. NAME is the name of a room, or a part of an attack's name:
${(Object.keys(rooms) as Room[])
  .map(
    (room) =>
      `\n${room}\n${Object.keys(rooms[room])
        .map((name) => `  ${name}\n`)
        .join("")}`,
  )
  .join("")}
  --quick   short attacks, on servers that may have withstood earlier attacks; without variants of the same
            attack unless they are named; bars for times are loose
Exits with 1 if a row misses a bar.
`;

/**
 * Parses the arguments.
 *
 * @throws Error if a name is not part of any attack's name, or a flag is unknown.
 */
export function parseOptions(args: readonly string[]): Options {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      quick: { type: "boolean", default: false },
      help: { type: "boolean", default: false },
    },
  });
  const wanted = positionals.map((name) => {
    const found = Object.hasOwn(rooms, name)
      ? all.filter(({ room }) => room === name)
      : all.filter(({ attack }) => attack.toLowerCase().includes(name.toLowerCase()));
    if (found.length === 0) {
      throw new Error(
        `unknown attack "${name}": expected a room or a part of an attack's name; --help lists them`,
      );
    }
    return found;
  });
  const unnamed = values.quick ? all.filter(({ attack }) => !variants.has(attack)) : all;
  return {
    attacks: positionals.length === 0 ? unnamed : [...new Set(wanted.flat())],
    quick: values.quick,
    help: values.help,
  };
}
