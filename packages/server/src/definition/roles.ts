// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";

/**
 * Permissions of a connection: an `agent` joins worlds, steps and resets itself; an `operator`
 * creates, resets and destroys worlds and writes properties; a `spectator` watches worlds. Every
 * connection may leave, and read and list properties, except the names of the worlds: an agent may
 * read them only if joins need no join token.
 */
export type Role = "agent" | "operator" | "spectator";

/** The roles of a connection. */
export type Roles = ReadonlySet<Role>;

/** Roles granted when `authorize` is not configured. */
export const everyRole: Roles = new Set<Role>(["agent", "operator", "spectator"]);

/**
 * Returns true if a connection may read the names of the worlds. Agents may only if joins need no
 * join token.
 *
 * @param canJoinWithoutToken True if agents join without a join token.
 */
export function mayListWorlds(roles: Roles, canJoinWithoutToken: boolean): boolean {
  return (
    roles.has("operator") || roles.has("spectator") || (canJoinWithoutToken && roles.has("agent"))
  );
}

/** @throws DmEnvRpcError PERMISSION_DENIED naming the required role. */
export function requireRole(roles: Roles, role: Role, what: string): void {
  if (roles.has(role)) {
    return;
  }
  const held = roles.size === 0 ? "none" : [...roles].map((own) => `"${own}"`).join(" and ");
  throw new DmEnvRpcError(
    "PERMISSION_DENIED",
    `cannot ${what}: expected the role "${role}", received ${held}; connect with credentials that have the role`,
  );
}
