// SPDX-License-Identifier: Apache-2.0
import { parseArgs } from "node:util";
import { TicketState } from "@dm-env-rpc/protocol/matchmaker";
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { parseAddress } from "@dm-env-rpc/transport";

/** Options of every command that calls a matchmaker. */
export interface Target {
  readonly matchmakers: readonly string[];
  /** Paths of files: a token, an authority, and a certificate with its key. */
  readonly token: string | undefined;
  readonly ca: string | undefined;
  readonly cert: string | undefined;
  readonly key: string | undefined;
}

/** A command that calls a matchmaker. */
export type Call = { readonly json: boolean; readonly target: Target } & (
  | { readonly kind: "tickets"; readonly state: TicketState }
  | { readonly kind: "servers" | "worlds" | "profiles" | "watch" }
  | { readonly kind: "drain"; readonly serverId: string }
);

/** A parsed command line. */
export type Command = { readonly kind: "help" } | { readonly kind: "version" } | Call;

/** The text that `--help` prints. */
export const help = `Shows and changes the state of a dm_env_rpc matchmaker, for its operators.

usage: npx @dm-env-rpc/matchmaker COMMAND [options]

  tickets              tickets; with --state, only the tickets in one state
  servers              environment servers with their load
  worlds               worlds with their agents, as their servers last reported them
  profiles             match profiles
  drain SERVER_ID      stops placing worlds on a server; its current worlds continue
  watch                prints the profiles, servers, matches and tickets, then each change of
                       them, until interrupted

  --matchmaker ADDRESS address of a matchmaker, HOST:PORT or a URL; repeat the
                       flag for matchmakers that share a store
                       (default 127.0.0.1:8990)
  --token FILE         file with the operator's token
  --ca FILE            authority that issued the matchmakers' certificates, PEM
  --cert FILE          the operator's certificate, PEM; with --key
  --key FILE           key of the certificate, PEM
  --state STATE        waiting, matched, assigned, joined, completed, cancelled or failed
  --json               prints one JSON object per line, with records in protobuf's JSON and
                       without join tokens
  --help, --version

exit code: 0 on success, 1 if the matchmaker refused the call or no matchmaker answered, 2 if
the command line is wrong.
`;

const listing = ["servers", "worlds", "profiles", "watch"] as const;
const kinds = ["tickets", "servers", "worlds", "profiles", "drain", "watch"];
const states: ReadonlyMap<string, TicketState> = new Map([
  ["waiting", TicketState.WAITING],
  ["matched", TicketState.MATCHED],
  ["assigned", TicketState.ASSIGNED],
  ["joined", TicketState.JOINED],
  ["completed", TicketState.COMPLETED],
  ["cancelled", TicketState.CANCELLED],
  ["failed", TicketState.FAILED],
]);

/**
 * Reads the command line.
 *
 * @throws Error that names the mistake.
 */
export function parseCommand(args: readonly string[]): Command {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      matchmaker: { type: "string", multiple: true, default: ["127.0.0.1:8990"] },
      token: { type: "string" },
      ca: { type: "string" },
      cert: { type: "string" },
      key: { type: "string" },
      state: { type: "string" },
      json: { type: "boolean", default: false },
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
  const [kind, ...operands] = positionals;
  const { matchmaker: matchmakers, token, ca, cert, key, json } = values;
  for (const address of matchmakers) {
    checkAddress(address);
  }
  if ((cert === undefined) !== (key === undefined)) {
    throw new Error(
      `--cert and --key: expected both, received only ${cert === undefined ? "--key" : "--cert"}`,
    );
  }
  const shared = { json, target: { matchmakers, token, ca, cert, key } };
  if (values.state !== undefined && kind !== "tickets") {
    throw new Error(
      `--state: expected only with the command "tickets", received with ${kind === undefined ? "no command" : `"${kind}"`}`,
    );
  }
  if (kind === "drain") {
    const [serverId, ...more] = operands;
    if (serverId === undefined || more.length > 0) {
      throw new Error(
        `drain: expected the id of one server, received ${operands.length} ids; the command "servers" lists the ids of all servers`,
      );
    }
    return { kind, serverId, ...shared };
  }
  if (operands.length > 0) {
    throw new Error(`${kind}: expected no operands, received "${operands.join(" ")}"`);
  }
  if (kind === "tickets") {
    const all = TicketState.UNSPECIFIED;
    const state = values.state === undefined ? all : states.get(values.state);
    if (state === undefined) {
      const known = [...states.keys()].join(", ");
      throw new Error(`--state: expected one of ${known}, received "${values.state}"`);
    }
    return { kind, state, ...shared };
  }
  const listed = listing.find((known) => known === kind);
  if (listed === undefined) {
    const received = kind === undefined ? "none" : `"${kind}"`;
    throw new Error(`command: expected one of ${kinds.join(", ")}, received ${received}`);
  }
  return { kind: listed, ...shared };
}

function checkAddress(address: string): void {
  try {
    parseAddress(address);
  } catch (error) {
    const why = error instanceof DmEnvRpcError ? error.message : String(error);
    throw new Error(`--matchmaker: ${why}`, { cause: error });
  }
}
