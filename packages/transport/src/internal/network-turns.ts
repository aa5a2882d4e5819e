// SPDX-License-Identifier: Apache-2.0
import { Queue } from "./queue.ts";

/** Tasks that wait. Networks take turns, whatever the number of their tasks; the tasks of a network keep their order. */
export class NetworkTurns {
  /** Networks with waiting tasks, in the order of their turns. */
  readonly #waiting = new Queue<Waiting>();
  readonly #byNetwork = new Map<string, Waiting>();

  get isEmpty(): boolean {
    return this.#waiting.size === 0;
  }

  push(network: string, task: () => void): void {
    let waiting = this.#byNetwork.get(network);
    if (waiting === undefined) {
      waiting = { network, tasks: new Queue() };
      this.#byNetwork.set(network, waiting);
      this.#waiting.push(waiting);
    }
    waiting.tasks.push(task);
  }

  /** Removes and returns the next task; undefined if none waits. */
  shift(): (() => void) | undefined {
    const first = this.#waiting.shift();
    if (first === undefined) {
      return undefined;
    }
    const task = first.tasks.shift();
    if (first.tasks.size > 0) {
      this.#waiting.push(first); // Behind the other networks.
    } else {
      this.#byNetwork.delete(first.network);
    }
    return task;
  }
}

interface Waiting {
  readonly network: string;
  readonly tasks: Queue<() => void>;
}
