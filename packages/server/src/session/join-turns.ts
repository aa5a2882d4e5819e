// SPDX-License-Identifier: Apache-2.0
import { Queue, type ThreadShare, type TurnKey } from "@dm-env-rpc/transport/internal";
import type { HostedWorld } from "../engine/hosted-world.ts";

/** A join that waits. */
interface Waiting {
  readonly key: TurnKey;
  readonly join: (over: () => void) => void;
}

/**
 * Runs the joins with several seats one at a time in each world. If two such joins took seats in turns, each could take
 * half of the free seats, and both would be refused.
 */
export class JoinTurns {
  readonly #share: ThreadShare;
  /** The joins that wait, for each world with a join in progress. */
  readonly #waiting = new Map<HostedWorld, Queue<Waiting>>();

  constructor(share: ThreadShare) {
    this.#share = share;
  }

  /**
   * Runs a join now, or in a later turn of the event loop after the earlier joins of the world.
   *
   * @param key Key of the peer, which takes turns with others.
   * @param join Must call `over` once.
   */
  enter(world: HostedWorld, key: TurnKey, join: (over: () => void) => void): void {
    const waiting = this.#waiting.get(world);
    if (waiting === undefined) {
      this.#waiting.set(world, new Queue());
      join(() => this.#next(world));
    } else {
      waiting.push({ key, join });
    }
  }

  #next(world: HostedWorld): void {
    const next = this.#waiting.get(world)?.shift();
    if (next === undefined) {
      this.#waiting.delete(world);
      return;
    }
    this.#share.count();
    this.#share.wait(next.key, () => next.join(() => this.#next(world)));
  }
}
