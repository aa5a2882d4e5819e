// SPDX-License-Identifier: Apache-2.0
import { parseArgs } from "node:util";

/** A parsed command line. */
export type Arguments =
  | { readonly show: "help" | "version" }
  | { readonly show: undefined; readonly folder: string };

const options = { help: { type: "boolean" }, version: { type: "boolean" } } as const;

/**
 * Reads the command line.
 *
 * @throws Error with a message of one line.
 */
export function readArguments(args: readonly string[]): Arguments {
  const { values, positionals } = parse(args);
  if (values.help === true) {
    return { show: "help" };
  }
  if (values.version === true) {
    return { show: "version" };
  }
  const [folder] = positionals;
  if (folder === undefined || folder === "" || positionals.length > 1) {
    const received = positionals.length === 0 ? "none" : positionals.map(quote).join(" ");
    throw new Error(
      `expected one folder, received ${received}; try: npm create @dm-env-rpc my-world`,
    );
  }
  return { show: undefined, folder };
}

function parse(args: readonly string[]) {
  try {
    return parseArgs({ args: [...args], options, allowPositionals: true });
  } catch (error) {
    const [line = ""] = (error instanceof Error ? error.message : String(error)).split(/\n|\. /);
    throw new Error(`${line}; see npm create @dm-env-rpc -- --help`, { cause: error });
  }
}

function quote(text: string): string {
  return `"${text}"`;
}
