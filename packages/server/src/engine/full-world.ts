// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";

/**
 * Returns the error of a join if the world has no room for it (behaviour 27).
 *
 * @param agents Number of agents in the world, including all joining agents except the last.
 */
export function fullWorld(
  name: string,
  agents: number,
  max: number,
  maxAgentsPerWorld: number,
): DmEnvRpcError | undefined {
  const room = Math.min(max, maxAgentsPerWorld);
  if (agents < room) {
    return undefined;
  }
  const limit = max <= maxAgentsPerWorld ? "agents.max" : "maxAgentsPerWorld";
  return new DmEnvRpcError(
    "RESOURCE_EXHAUSTED",
    `the world "${name}" has room for ${room} agents and is full; wait until one leaves, or join another (limit: ${limit})`,
  );
}
