// SPDX-License-Identifier: Apache-2.0
import type { ProcessRequest } from "@dm-env-rpc/tensor-codec/wire";
import { everyRole, type Role, type Roles, requireRole } from "../definition/roles.ts";

const roleOf: Partial<Record<NonNullable<ProcessRequest["case"]>, readonly [Role, string]>> = {
  createWorld: ["operator", "create a world"],
  joinWorld: ["agent", "join a world"],
  step: ["agent", "step"],
  reset: ["agent", "reset"],
  resetWorld: ["operator", "reset a world"],
  destroyWorld: ["operator", "destroy a world"],
};

/** @throws DmEnvRpcError PERMISSION_DENIED naming the role that the request requires. */
export function checkRequest(roles: Roles, kind: ProcessRequest["case"] | "malformed"): void {
  if (roles === everyRole || kind === undefined || kind === "malformed") {
    return;
  }
  const needed = roleOf[kind];
  if (needed !== undefined) {
    requireRole(roles, ...needed);
  }
}
