// SPDX-License-Identifier: Apache-2.0
import { parseArgs } from "node:util";

/** What the command line asks for. */
export interface Flags {
  readonly host: string;
  readonly port: number;
  readonly deadlineMs: number;
}

/** What `--help` prints. */
export const help = `Serves Level-Based Foraging, a multi-agent gridworld, over dm_env_rpc.

usage: dm-env-rpc-gridworld-server [options]

  --host ADDRESS      address to listen on (127.0.0.1)
  --port N            port to listen on; 0 picks one (8980)
  --deadline-ms N     milliseconds that a tick waits for slow agents, which then do
                      nothing in it; 0 waits for ever (10000)
  --allow-insecure    listen beyond this machine, where everybody may use the server
  --help, --version
`;

/**
 * Reads the command line.
 *
 * @throws Error saying which flag is wrong, what it takes, and what came.
 */
export function readFlags(args: readonly string[]): Flags & {
  readonly allowInsecure: boolean;
  readonly show: "help" | "version" | undefined;
} {
  const { values } = parseArgs({
    args: [...args],
    options: {
      host: { type: "string", default: "127.0.0.1" },
      port: { type: "string", default: "8980" },
      "deadline-ms": { type: "string", default: "10000" },
      "allow-insecure": { type: "boolean", default: false },
      help: { type: "boolean", default: false },
      version: { type: "boolean", default: false },
    },
  });
  return {
    host: values.host,
    port: integer("--port", values.port, 0, 65_535),
    deadlineMs: integer("--deadline-ms", values["deadline-ms"], 0, 2 ** 31 - 1),
    allowInsecure: values["allow-insecure"],
    show: values.help ? "help" : values.version ? "version" : undefined,
  };
}

function integer(flag: string, text: string, min: number, max: number): number {
  const value = /^\d+$/.test(text) ? Number(text) : Number.NaN;
  if (value >= min && value <= max) return value;
  throw new Error(`${flag} takes an integer from ${min} to ${max}, received "${text}"; see --help`);
}
