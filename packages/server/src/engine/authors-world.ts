// SPDX-License-Identifier: Apache-2.0

import type { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { messageOf } from "@dm-env-rpc/transport/internal";
import { type Awaitable, isPromiseLike } from "../definition/awaitable.ts";
import { checkWorld } from "../definition/hooks.ts";
import type { UntypedWorld, UntypedWorldDefinition } from "../definition/world.ts";
import { type WorldCalls, WorldFault, worldFailure } from "./world-calls.ts";
import type { WorldSettings } from "./world-settings.ts";

/** What the world of an author is made with. */
export interface AuthorsWorldOptions {
  readonly name: string;
  readonly definition: UntypedWorldDefinition;
  readonly calls: WorldCalls;
  /** Told of what goes wrong when nobody waits for it any more. */
  readonly onFailure: (error: DmEnvRpcError) => void;
}

/** The world that the author wrote: made once, and told once that it is over. */
export class AuthorsWorld {
  readonly #options: AuthorsWorldOptions;
  #world: UntypedWorld | undefined;
  #isOver = false;

  constructor(options: AuthorsWorldOptions) {
    this.#options = options;
  }

  /** Its functions. */
  get made(): UntypedWorld {
    if (this.#world !== undefined) return this.#world;
    throw new Error(`the world "${this.#options.name}" has not been made yet`);
  }

  /** Calls the author's `create`. */
  create(
    { values, random }: WorldSettings,
    then: (world: UntypedWorld) => void,
    refused: (error: Error) => void,
  ): void {
    const { definition, calls } = this.#options;
    const make = (): Awaitable<UntypedWorld> => {
      const context = { settings: values as never, random };
      const made = definition.create(context) as Awaitable<UntypedWorld>;
      return isPromiseLike(made) ? made.then((world) => this.#inTime(world)) : made;
    };
    calls.call(
      "create",
      make,
      (world) => {
        this.#world = checked(world);
        then(world);
      },
      refused,
    );
  }

  /** A world that nobody waits for any more is over at once. */
  #inTime(world: UntypedWorld): UntypedWorld {
    if (!this.#isOver) return world;
    try {
      this.#tellOver(world);
    } catch (error) {
      this.#options.onFailure(worldFailure(this.#options.name, error));
    }
    return world;
  }

  /**
   * Calls the author's `destroy`, unless that was done.
   *
   * @throws WorldFault when it throws.
   */
  destroy(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#tellOver(this.#world);
  }

  /** Destroys it because something went wrong; the result says what, this included. */
  destroyAfter(fault: unknown): unknown {
    try {
      this.destroy();
      return fault;
    } catch (error) {
      return new AggregateError([fault, error], `${messageOf(fault)}; then ${messageOf(error)}`);
    }
  }

  /** Nobody waits for a world that is over; what it could not tidy up is the operator's to know. */
  #tellOver(world: UntypedWorld | undefined): void {
    const { name, onFailure } = this.#options;
    try {
      const over = world?.destroy?.();
      over?.then(undefined, (error: unknown) =>
        onFailure(worldFailure(name, new WorldFault("destroy", error))),
      );
    } catch (error) {
      throw new WorldFault("destroy", error);
    }
  }
}

/** @throws WorldFault if what `create` returned is not a world. */
function checked(world: UntypedWorld | undefined): UntypedWorld {
  try {
    return checkWorld(world);
  } catch (error) {
    throw new WorldFault("create", error);
  }
}
