// SPDX-License-Identifier: Apache-2.0
import type { Store } from "../src/store/store.ts";
import { wrappedStore } from "./wrapped-stores.ts";

/**
 * A process that is killed at one of its steps. Its later calls have no effect and are never
 * answered.
 */
export class Mortal {
  #steps = 0;
  readonly #dieAt: number;
  #isDead = false;
  #die = (): void => {};
  /** Resolves when the process dies. */
  readonly death: Promise<void>;

  /** @param dieAt Number of the step; each call has two, before and after its effect. */
  constructor(dieAt: number) {
    this.#dieAt = dieAt;
    this.death = new Promise((resolve) => {
      this.#die = resolve;
    });
  }

  get isDead(): boolean {
    return this.#isDead;
  }

  /** Makes a call with an external effect. */
  async step<T>(work: () => Promise<T>): Promise<T> {
    await this.#live();
    const result = await work();
    await this.#live();
    return result;
  }

  /** Waits for work while the process lives. */
  async outlive(work: Promise<unknown>): Promise<void> {
    await Promise.race([work, this.death]);
  }

  async #live(): Promise<void> {
    this.#steps += 1;
    if (this.#steps === this.#dieAt) {
      this.#isDead = true;
      this.#die();
    }
    if (this.#isDead) {
      await new Promise(() => {});
    }
  }
}

/** Wraps a store so that its calls are steps of a mortal process. */
export function mortalStore(store: Store, mortal: Mortal): Store {
  return {
    ...wrappedStore(store, (run) => mortal.step(run)),
    // A dead process releases nothing.
    release: async () => {},
  };
}
