// SPDX-License-Identifier: Apache-2.0

/** The RUNNING agents of a sequence in the order in which they joined. */
export class RunningAgents<T extends { readonly agent: number }> {
  #agents = new Set<T>();
  /**
   * `#agents` in the order of joining; undefined if an agent re-entered at an earlier place and the
   * set is not sorted yet.
   */
  #ordered: ReadonlySet<T> | undefined = this.#agents;
  /** The highest agent added since the set was empty. */
  #highest = 0;

  /**
   * The agents in the order of joining: the same set until an agent re-enters at an earlier place.
   */
  get agents(): ReadonlySet<T> {
    if (this.#ordered === undefined) {
      this.#agents = new Set([...this.#agents].sort((a, b) => a.agent - b.agent));
      this.#ordered = this.#agents;
    }
    return this.#ordered;
  }

  get size(): number {
    return this.#agents.size;
  }

  add(added: T): void {
    if (this.#agents.size === 0) {
      this.#highest = 0;
    }
    if (added.agent < this.#highest) {
      this.#ordered = undefined;
    } else {
      this.#highest = added.agent;
    }
    this.#agents.add(added);
  }

  delete(removed: T): void {
    this.#agents.delete(removed);
  }
}
