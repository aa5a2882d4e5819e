// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import type { UntypedWorldDefinition } from "../definition/world.ts";

/**
 * Decides what a destroy does to a world with some agents (behaviour 30).
 *
 * @returns True to destroy it now, false to wait until the agents have left.
 * @throws DmEnvRpcError FAILED_PRECONDITION if the policy is `refuse` and there are agents.
 */
export function mayDestroyNow(
  name: string,
  { onDestroy = "refuse" }: Pick<UntypedWorldDefinition, "onDestroy">,
  agents: number,
): boolean {
  if (agents === 0 || onDestroy === "force") {
    return true;
  }
  if (onDestroy === "drain") {
    return false;
  }
  throw new DmEnvRpcError(
    "FAILED_PRECONDITION",
    `the world "${name}" has ${agents} agents joined; have them leave first`,
  );
}

/** Creates the error of requests to a world that was destroyed. */
export function destroyedWorld(name: string): DmEnvRpcError {
  return new DmEnvRpcError(
    "NOT_FOUND",
    `the world "${name}" was destroyed; leave it, and create or join another`,
  );
}
