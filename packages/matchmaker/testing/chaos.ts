// SPDX-License-Identifier: Apache-2.0
import type { Store } from "../src/store/store.ts";

/** A process that is killed at one of its steps: from then on nothing that it asks is done, or answered. */
export class Mortal {
  #steps = 0;
  readonly #dieAt: number;
  #isDead = false;
  #die = (): void => {};
  /** Resolves when it dies. */
  readonly death: Promise<void>;

  /** @param dieAt At which step; there are two to a call, before its effect on others and after it. */
  constructor(dieAt: number) {
    this.#dieAt = dieAt;
    this.death = new Promise((resolve) => {
      this.#die = resolve;
    });
  }

  get isDead(): boolean {
    return this.#isDead;
  }

  /** A call with an effect on others. */
  async step<T>(work: () => Promise<T>): Promise<T> {
    await this.#live();
    const result = await work();
    await this.#live();
    return result;
  }

  /** Does something as long as it lives. */
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

/** A store as a mortal process uses it. */
export function mortalStore(store: Store, mortal: Mortal): Store {
  return {
    ...store,
    commit: (changes, options) => mortal.step(() => store.commit(changes, options)),
    read: (keys) => mortal.step(() => store.read(keys)),
    changes: (since, limit) => mortal.step(() => store.changes(since, limit)),
    acquire: (name, holder, ttlMs) => mortal.step(() => store.acquire(name, holder, ttlMs)),
    renew: (lease, ttlMs) => mortal.step(() => store.renew(lease, ttlMs)),
    // The dead let go of nothing.
    release: async () => {},
    close: async () => {},
    [Symbol.asyncDispose]: async () => {},
  };
}
