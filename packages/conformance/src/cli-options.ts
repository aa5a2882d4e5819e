// SPDX-License-Identifier: Apache-2.0
import { parseArgs } from "node:util";
import type { ProtocolName } from "./protocol-name.ts";

/** A parsed command line. */
export type Command =
  | { readonly kind: "help" | "version" | "list" }
  | {
      readonly kind: "run";
      readonly address: string;
      readonly protocol: ProtocolName;
      readonly config: string | undefined;
      readonly filter: string | undefined;
      readonly json: string | undefined;
      readonly junit: string | undefined;
      readonly all: boolean;
    };

/** The text that `--help` prints. */
export const help = `Checks whether a server keeps the rules of dm_env_rpc.

usage: dm-env-rpc-conformance --address HOST:PORT [options]

  --address HOST:PORT  the server to check
  --protocol NAME      grpc (default), connect or grpc-web
  --config FILE        JSON that describes the server: create settings, number of agents
                       in a world, policies, checks that are known to fail
  --filter TEXT        run only checks whose id or title contains TEXT
  --json FILE          write the report as JSON
  --junit FILE         write the report as JUnit XML
  --all                print passed checks as well
  --list               print every check with its section
  --help, --version

exit code: 0 if every check passed or failed as expected, 1 if a check failed or passed
unexpectedly, 2 if no check could run.
`;

const protocols = ["grpc", "connect", "grpc-web"] as const satisfies readonly ProtocolName[];

/**
 * Reads the command line.
 *
 * @throws Error for unknown or invalid arguments.
 */
export function parseCommand(args: readonly string[]): Command {
  const { values } = parseArgs({
    args: [...args],
    options: {
      address: { type: "string" },
      protocol: { type: "string", default: "grpc" },
      config: { type: "string" },
      filter: { type: "string" },
      json: { type: "string" },
      junit: { type: "string" },
      all: { type: "boolean", default: false },
      list: { type: "boolean", default: false },
      help: { type: "boolean", default: false },
      version: { type: "boolean", default: false },
    },
  });
  if (values.help) {
    return { kind: "help" };
  }
  if (values.version) {
    return { kind: "version" };
  }
  if (values.list) {
    return { kind: "list" };
  }
  const { address, config, filter, json, junit, all } = values;
  if (address === undefined) {
    throw new Error("expected --address HOST:PORT, received no address");
  }
  const protocol = protocols.find((name) => name === values.protocol);
  if (protocol === undefined) {
    throw new Error(
      `--protocol: expected one of ${protocols.join(", ")}, received "${values.protocol}"`,
    );
  }
  return { kind: "run", address, protocol, config, filter, json, junit, all };
}
