// SPDX-License-Identifier: Apache-2.0
import { messageOf } from "@dm-env-rpc/transport/internal";
import { type Awaitable, isPromiseLike } from "../definition/awaitable.ts";
import { checkWorld } from "../definition/hooks.ts";
import { checkPropertyTree } from "../definition/property.ts";
import type { UntypedWorld, UntypedWorldDefinition } from "../definition/world.ts";
import { WorldFault, worldFailure } from "./author-calls.ts";
import type { Outside } from "./outside.ts";
import type { WorldSettings } from "./world-settings.ts";

/** Options of AuthorsWorld. */
export interface AuthorsWorldOptions {
  readonly name: string;
  readonly definition: UntypedWorldDefinition;
  readonly outside: Outside;
}

/** The author's world: created once, destroyed once. */
export class AuthorsWorld {
  readonly #options: AuthorsWorldOptions;
  #world: UntypedWorld | undefined;
  #isOver = false;

  constructor(options: AuthorsWorldOptions) {
    this.#options = options;
  }

  /** Calls the author's `create`. */
  create(
    { values, random }: WorldSettings,
    then: (world: UntypedWorld) => void,
    refused: (error: Error) => void,
  ): void {
    const { definition, outside } = this.#options;
    const make = (): Awaitable<UntypedWorld> => {
      const context = { settings: values as never, random };
      const made = definition.create(context) as Awaitable<UntypedWorld>;
      return isPromiseLike(made) ? made.then((world) => this.#inTime(world)) : made;
    };
    outside.call(
      "create",
      make,
      (world) => {
        this.#world = checked(world);
        then(world);
      },
      refused,
    );
  }

  /** Destroys a world that is created after its server stopped waiting for it. */
  #inTime(world: UntypedWorld): UntypedWorld {
    if (!this.#isOver) {
      return world;
    }
    try {
      this.#destroy(world);
    } catch (error) {
      this.#report(error);
    }
    return world;
  }

  /**
   * Calls the author's `destroy`, once.
   *
   * @throws WorldFault if it throws.
   */
  destroy(): void {
    if (this.#isOver) {
      return;
    }
    this.#isOver = true;
    this.#destroy(this.#world);
  }

  /**
   * Destroys the world because of a fault.
   *
   * @returns The fault, together with the fault of `destroy`, if any.
   */
  destroyAfter(fault: unknown): unknown {
    try {
      this.destroy();
      return fault;
    } catch (error) {
      return new AggregateError([fault, error], `${messageOf(fault)}; then ${messageOf(error)}`);
    }
  }

  /**
   * Destroys the world. No request waits for the promise of `destroy`, so its rejection is reported
   * as an event.
   */
  #destroy(world: UntypedWorld | undefined): void {
    try {
      const over = world?.destroy?.();
      over?.then(undefined, (error: unknown) => this.#report(new WorldFault("destroy", error)));
    } catch (error) {
      throw new WorldFault("destroy", error);
    }
  }

  #report(fault: unknown): void {
    const { name, outside } = this.#options;
    outside.emit({ kind: "failed", error: worldFailure(name, fault) });
  }
}

/** @throws WorldFault if the result of `create` is not a world. */
function checked(world: UntypedWorld | undefined): UntypedWorld {
  try {
    const made = checkWorld(world);
    checkPropertyTree(made.properties ?? {});
    return made;
  } catch (error) {
    throw new WorldFault("create", error);
  }
}
