// SPDX-License-Identifier: Apache-2.0
import { parseArgs } from "node:util";

/** What can be measured. */
export const tables = [
  "rpc",
  "large",
  "codec",
  "client",
  "server",
  "growth",
  "matchmaker",
] as const;

/** The name of a table. */
export type TableName = (typeof tables)[number];

/** What is measured when nothing is said: what a newcomer wants to know. */
export const defaultTables: readonly TableName[] = ["rpc", "large", "codec"];

/** What the command line says. */
export interface Options {
  readonly tables: readonly TableName[];
  /** Short turns, for CI. */
  readonly quick: boolean;
  /** Where the results go as JSON, beside the folder of results. */
  readonly json: string | undefined;
  /** A Python interpreter with the official package; by default that of tests/interop. */
  readonly python: string | undefined;
  /** The contenders to compare; all by default. */
  readonly only: readonly string[] | undefined;
  /** The modes to compare them in; all by default. */
  readonly modes: readonly string[] | undefined;
  /** Where CPU profiles of the processes go. */
  readonly profiles: string | undefined;
  readonly help: boolean;
}

/** How it is used. */
export const usage = `npm run bench -- [TABLE...] [OPTIONS]

Tables: ${tables.join(" ")} all; by default ${defaultTables.join(" ")}.

  --quick         short turns: figures are rough
  --json FILE     results as JSON, also to FILE
  --only A,B      compare these contenders alone, such as ours,connect,http2-echo
  --modes A,B     compare them in these modes alone, such as lock1,pipe64
  --python FILE   an interpreter with dm-env-rpc; by default that of tests/interop/.venv, if it is there
  --profiles DIR  CPU profiles of all Node processes
`;

/**
 * Reads the command line.
 *
 * @throws Error that says what was not understood, and what there is.
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
  const named = positionals.flatMap((name) => (name === "all" ? tables : [tableOf(name)]));
  return {
    tables: named.length === 0 ? defaultTables : tables.filter((table) => named.includes(table)),
    quick: values.quick,
    json: values.json,
    python: values.python,
    only: values.only?.split(","),
    modes: values.modes?.split(","),
    profiles: values.profiles,
    help: values.help,
  };
}

function tableOf(name: string): TableName {
  const found = tables.find((table) => table === name);
  if (found === undefined) {
    throw new Error(`expected a table (${tables.join(", ")} or all), received "${name}"`);
  }
  return found;
}
