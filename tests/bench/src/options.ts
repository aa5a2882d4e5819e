// SPDX-License-Identifier: Apache-2.0
import { parseArgs } from "node:util";

/** Names of all tables. */
export const tables = [
  "rpc",
  "large",
  "codec",
  "client",
  "server",
  "growth",
  "matchmaker",
  "browser",
  "batch",
] as const;

/** The name of a table. */
export type TableName = (typeof tables)[number];

/** The tables measured by default. */
export const defaultTables: readonly TableName[] = ["rpc", "large", "codec"];

/** Tables that `ab` can compare. */
export const comparedTables: readonly TableName[] = [
  "rpc",
  "large",
  "codec",
  "client",
  "matchmaker",
];

/** The parsed command line. */
export interface Options {
  readonly tables: readonly TableName[];
  /** A commit, or the folder of a built checkout, to compare this tree with (`ab`). */
  readonly base: string | undefined;
  /** Short turns, for CI. */
  readonly quick: boolean;
  /** A further file for the results as JSON. */
  readonly json: string | undefined;
  /** A Python interpreter with the official package; by default that of tests/interop. */
  readonly python: string | undefined;
  /** The contenders to compare; all by default. */
  readonly only: readonly string[] | undefined;
  /** The modes to compare them in, or the kinds of measurements of `matchmaker`; all by default. */
  readonly modes: readonly string[] | undefined;
  /** The folder that CPU profiles of the processes go to. */
  readonly profiles: string | undefined;
  readonly help: boolean;
}

/** The help text. */
export const usage = `npm run bench -- [TABLE...] [OPTIONS]
npm run bench -- ab BASE [TABLE...] [OPTIONS]

Tables: ${tables.join(" ")} all; by default ${defaultTables.join(" ")}.

ab plays this tree and BASE, a commit or the folder of a built checkout, in turns, and prints the ratios of
their CPU per step, or the figures of both. Tables: ${comparedTables.join(" ")}; by default ${defaultTables.join(" ")}.

  --quick         short turns: figures are rough
  --json FILE     results as JSON, also to FILE
  --only A,B      compare only these contenders, such as ours,connect,http2-echo
  --modes A,B     compare them only in these modes, such as lock1,pipe64; of matchmaker: arrive,assign,wait,restart,watch
  --python FILE   an interpreter with dm-env-rpc; by default that of tests/interop/.venv, if it exists
  --profiles DIR  CPU profiles of all Node processes
`;

/**
 * Parses the command line.
 *
 * @throws Error naming the argument that was not understood and the alternatives.
 */
export function parseOptions(args: readonly string[]): Options {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      quick: { type: "boolean", default: false },
      json: { type: "string" },
      python: { type: "string" },
      only: { type: "string" },
      modes: { type: "string" },
      profiles: { type: "string" },
      help: { type: "boolean", default: false },
    },
  });
  const compares = positionals[0] === "ab";
  const base = compares ? positionals[1] : undefined;
  if (compares && base === undefined && !values.help) {
    throw new Error("expected a commit or a folder after ab, received nothing");
  }
  const known = compares ? comparedTables : tables;
  const named = positionals
    .slice(compares ? 2 : 0)
    .flatMap((name) => (name === "all" ? known : [tableOf(name, known)]));
  return {
    tables: named.length === 0 ? defaultTables : tables.filter((table) => named.includes(table)),
    base,
    quick: values.quick,
    json: values.json,
    python: values.python,
    only: values.only?.split(","),
    modes: values.modes?.split(","),
    profiles: values.profiles,
    help: values.help,
  };
}

function tableOf(name: string, known: readonly TableName[]): TableName {
  const found = known.find((table) => table === name);
  if (found === undefined) {
    throw new Error(`expected a table (${known.join(", ")} or all), received "${name}"`);
  }
  return found;
}
