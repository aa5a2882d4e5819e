// SPDX-License-Identifier: Apache-2.0
import { parseArgs } from "node:util";
import type { ProtocolName } from "./protocol-name.ts";

/** What the command line asks for. */
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

/** What `--help` prints. */
export const help = `Checks whether a server keeps the rules of dm_env_rpc.

usage: dm-env-rpc-conformance --address HOST:PORT [options]

  --address HOST:PORT  the server to check
  --protocol NAME      grpc (default), connect or grpc-web
  --config FILE        JSON that says what the server has: settings of a create, how many
                       agents a world takes, policies, checks that are known to fail
  --filter TEXT        only checks whose id or title has this in it
  --json FILE          write the report as JSON
  --junit FILE         write the report as JUnit XML
  --all                print the checks that pass, too
  --list               print every check, and where it is written
  --help, --version

exit code: 0 when all is well, 1 when a check failed (or one passed that is known to
fail), 2 when nothing could be checked.
`;

const protocols = ["grpc", "connect", "grpc-web"] as const satisfies readonly ProtocolName[];

/**
 * Reads the command line.
 *
 * @throws Error saying what is wrong with it.
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
    throw new Error("expected --address HOST:PORT, received none");
  }
  const protocol = protocols.find((name) => name === values.protocol);
  if (protocol === undefined) {
    throw new Error(
      `--protocol takes one of ${protocols.join(", ")}, received "${values.protocol}"`,
    );
  }
  return { kind: "run", address, protocol, config, filter, json, junit, all };
}
