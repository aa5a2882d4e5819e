// SPDX-License-Identifier: Apache-2.0

/** Number of connections, streams, calls and requests that each limit has refused or ended. */
export class RefusalCounts {
  readonly #byLimit = new Map<string, number>();

  /** Counts a refusal by a limit. */
  count(limit: string): void {
    this.#byLimit.set(limit, (this.#byLimit.get(limit) ?? 0) + 1);
  }

  /** The counts by the name of the limit. */
  get byLimit(): ReadonlyMap<string, number> {
    return this.#byLimit;
  }
}
