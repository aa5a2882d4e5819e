// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import type { ServerLimits } from "../host/limits.ts";

/** The error of a world that has no room for one agent more. */
export function fullWorld(
  name: string,
  agents: number,
  max: number,
  { maxAgentsPerWorld }: Pick<ServerLimits, "maxAgentsPerWorld">,
): DmEnvRpcError | undefined {
  const room = Math.min(max, maxAgentsPerWorld);
  if (agents < room) return undefined;
  const limit = max <= maxAgentsPerWorld ? "agents.max" : "maxAgentsPerWorld";
  return new DmEnvRpcError(
    "RESOURCE_EXHAUSTED",
    `the world "${name}" has room for ${room} agents and is full; wait until one leaves, or join another (limit: ${limit})`,
  );
}
