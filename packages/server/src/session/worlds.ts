// SPDX-License-Identifier: Apache-2.0
import type { HostedWorld } from "../engine/hosted-world.ts";
import type { Done, PackedSettings } from "../engine/requests.ts";

/** The worlds of a server, as its sessions use them. */
export interface Worlds {
  /**
   * Returns the world of a name.
   *
   * @param mayList True if the error may name the current worlds.
   * @throws DmEnvRpcError NOT_FOUND.
   */
  get(name: string, mayList: boolean): HostedWorld;
  /** @throws DmEnvRpcError if there is no room for the world or a setting is invalid. */
  create(settings: PackedSettings, done: Done<HostedWorld>): void;
}
