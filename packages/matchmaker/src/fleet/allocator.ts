// SPDX-License-Identifier: Apache-2.0
import type { Labels } from "../model/model.ts";
import type { ServerTarget } from "./world-servers.ts";

/** A registered server that gets its first world. */
export interface AllocatableServer extends ServerTarget {
  /** Labels that the server registered with. */
  readonly labels: Labels;
}

/**
 * Reserves servers at an orchestrator, such as Agones. Without a reservation, the orchestrator may remove a
 * server at any time. The matchmaker itself decides on which server a world is placed. It calls the allocator
 * before it creates the first world on a server. An allocation lasts for as long as the server is registered.
 */
export interface ServerAllocator {
  /**
   * Allocates a server. Must be idempotent: if the outcome of a call is lost, the call is repeated.
   *
   * @param timeoutMs Time limit of the call.
   * @returns False if the orchestrator does not manage the server.
   * @throws Error if the server cannot be allocated now. Its worlds are then placed on other servers,
   *   and the server is not used until its cooldown is over.
   */
  allocate(server: AllocatableServer, timeoutMs: number): Promise<boolean>;
}
