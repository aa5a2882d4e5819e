// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { type Client, ConnectError, createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import {
  AdminService,
  type MatchProfile,
  MatchProfileSchema,
  MatchState,
  ServerState,
} from "@dm-env-rpc/protocol/matchmaker";
import { tensor } from "@dm-env-rpc/tensor-codec";
import { packTensor } from "@dm-env-rpc/tensor-codec/proto";
import { boardSettings } from "./board.ts";

/** Number of agents that play together. */
const groupSize = 4;

/** A client of a matchmaker's API for operators. */
export type Operator = Client<typeof AdminService>;

/** Connects to a matchmaker as its operator. */
export function operatorOf(address: string): Operator {
  return createClient(AdminService, createGrpcTransport({ baseUrl: `http://${address}` }));
}

/** Makes a profile of groups of four agents, each on a new board that starts when all four have joined. */
export function boardProfile(): MatchProfile {
  const settings = { ...boardSettings, min_agents: groupSize, max_agents: groupSize };
  return create(MatchProfileSchema, {
    name: "boards",
    pools: [{ name: "everyone" }],
    matchFunction: { function: { case: "byCount", value: { count: groupSize } } },
    worldType: "gridworld",
    worldSettings: Object.fromEntries(
      Object.entries(settings).map(([name, value]) => [
        name,
        packTensor(tensor("int32", [], Int32Array.of(value))),
      ]),
    ),
  });
}

/** Prints the matchmaker's events: servers that register, and matches with their worlds. */
export async function tell(
  operator: Operator,
  say: (line: string) => void,
  signal: AbortSignal,
): Promise<void> {
  const addresses = new Map<string, string>();
  const matches = new Set<string>();
  try {
    for await (const { change } of operator.watch({}, { signal })) {
      if (change.case === "server") {
        const { id, address, state, capacity } = change.value;
        if (state !== ServerState.SERVING || addresses.has(id)) {
          continue;
        }
        addresses.set(id, address);
        say(`server registered: ${address}, with room for ${capacity?.maxWorlds ?? 0} world`);
      } else if (change.case === "match") {
        const { id, state, teams, worldName, serverId } = change.value;
        if (state !== MatchState.LIVE || matches.has(id)) {
          continue;
        }
        matches.add(id);
        const tickets = teams.reduce((sum, { ticketIds }) => sum + ticketIds.length, 0);
        say(
          `${tickets} tickets matched: world "${worldName}" placed on ${addresses.get(serverId)}`,
        );
      }
    }
  } catch (error) {
    // A lost matchmaker ends the demo with an error.
    if (!signal.aborted) {
      say(`the matchmaker's events ended: ${ConnectError.from(error).rawMessage}`);
    }
  }
}
