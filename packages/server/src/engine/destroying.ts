// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import type { HostedWorld } from "./hosted-world.ts";

/** How the end of a world comes about. */
export interface DestroyingActions {
  after(delayMs: number, operation: () => void): () => void;
  /** Ends the world; those who asked for it are answered in the course of that. */
  end(): void;
}

/** The end of a world that somebody asked for, and when it comes: the policy for agents that are joined (behaviour 30). */
export class Destroying<Asker> {
  /** Those who asked, to be answered once the world is gone. */
  readonly askers: Asker[] = [];
  readonly #world: HostedWorld;
  readonly #actions: DestroyingActions;
  #isDraining = false;
  #cancelDeadline: (() => void) | undefined;

  constructor(world: HostedWorld, actions: DestroyingActions) {
    this.#world = world;
    this.#actions = actions;
  }

  /** Whether it takes no more agents. */
  get isDraining(): boolean {
    return this.#isDraining;
  }

  /**
   * Somebody asks for the end.
   *
   * @throws DmEnvRpcError FAILED_PRECONDITION as the policy is `refuse`, and agents are there.
   */
  request(asker: Asker): void {
    const { name, definition, agentCount } = this.#world;
    const { onDestroy: policy = "refuse", drainDeadlineMs = 30_000 } = definition;
    if (agentCount > 0 && policy === "refuse") {
      throw new DmEnvRpcError(
        "FAILED_PRECONDITION",
        `the world "${name}" has ${agentCount} agents joined; have them leave first`,
      );
    }
    this.askers.push(asker);
    if (agentCount === 0 || policy === "force") {
      this.#actions.end();
      return;
    }
    this.#isDraining = true;
    this.#cancelDeadline ??= this.#actions.after(drainDeadlineMs, () => this.#actions.end());
  }

  /** Takes no more agents, and ends when those that are there have left. */
  whenEmpty(): void {
    this.#isDraining = true;
    this.agentLeft();
  }

  /** Ends the world if it only waited for this. */
  agentLeft(): void {
    if (this.#isDraining && this.#world.agentCount === 0) this.#actions.end();
  }

  /** The world is gone. */
  stop(): void {
    this.#cancelDeadline?.();
  }
}

/** What those are told who ask something of a world that was destroyed. */
export function destroyedWorld(name: string): DmEnvRpcError {
  return new DmEnvRpcError(
    "NOT_FOUND",
    `the world "${name}" was destroyed; leave it, and create or join another`,
  );
}
