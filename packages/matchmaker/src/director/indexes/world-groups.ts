// SPDX-License-Identifier: Apache-2.0
import type { World } from "../../model/model.ts";

/** The worlds of a group, by id. */
export type WorldGroup = ReadonlyMap<string, World>;

/** Worlds in groups, such as the worlds of each server. A group is in the order in which its worlds were added. */
export class WorldGroups {
  readonly #groups = new Map<string, Map<string, World>>();

  get(key: string): WorldGroup {
    return this.#groups.get(key) ?? new Map();
  }

  add(key: string, world: World): void {
    const group = this.#groups.get(key) ?? new Map<string, World>();
    this.#groups.set(key, group.set(world.id, world));
  }

  delete(key: string, { id }: World): void {
    const group = this.#groups.get(key);
    group?.delete(id);
    if (group?.size === 0) {
      this.#groups.delete(key);
    }
  }

  /** Iterates over the groups that have worlds. The iteration also visits groups that are added in the meantime. */
  [Symbol.iterator](): IterableIterator<readonly [key: string, group: WorldGroup]> {
    return this.#groups.entries();
  }
}
