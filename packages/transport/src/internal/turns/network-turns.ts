// SPDX-License-Identifier: Apache-2.0
import { networkOf } from "./network-of.ts";
import { Queue } from "./queue.ts";

/** The peer that a task is for. Peers take turns (`NetworkTurns`). */
export interface TurnKey {
  /** The peer's network, as `networkOf` returns it. */
  readonly network: string;
  /**
   * Identifies the peer's connection among those of its network. Peers whose addresses have no port, such as those on a
   * Unix domain socket, share one.
   */
  readonly connection: string;
}

/** Returns the key of the tasks of a connection, given the address of its peer. */
export function turnKeyOf(address: string): TurnKey {
  return { network: networkOf(address), connection: address };
}

/** Returns the key of tasks for a network as a whole. */
export function networkTurnKey(network: string): TurnKey {
  return { network, connection: "" };
}

/**
 * Tasks that wait. Networks take turns, whatever the number of their connections, and so do the connections of each
 * network, whatever the number of their tasks. The tasks of a connection keep their order.
 */
export class NetworkTurns {
  readonly #networks = new Turns<Connections>(() => new Turns(() => new Queue()));

  get isEmpty(): boolean {
    return this.#networks.size === 0;
  }

  push({ network, connection }: TurnKey, task: Task): void {
    this.#networks.get(network).get(connection).push(task);
  }

  /** Removes and returns the next task; undefined if none waits. */
  shift(): Task | undefined {
    return this.#networks.take(takeOfConnection);
  }
}

type Task = () => void;

type Connections = Turns<Queue<Task>>;

const takeOfConnection = (connections: Connections): Task | undefined => connections.take(takeTask);

const takeTask = (tasks: Queue<Task>): Task | undefined => tasks.shift();

/** Groups of tasks that take turns. */
class Turns<Group extends { readonly size: number }> {
  readonly #create: () => Group;
  readonly #byName = new Map<string, Group>();
  /** Names of the groups in the order of their turns. */
  readonly #order = new Queue<string>();

  constructor(create: () => Group) {
    this.#create = create;
  }

  get size(): number {
    return this.#order.size;
  }

  /** Returns the group with a name; a new group is the last in the order of turns. The caller adds a task to it. */
  get(name: string): Group {
    let group = this.#byName.get(name);
    if (group === undefined) {
      group = this.#create();
      this.#byName.set(name, group);
      this.#order.push(name);
    }
    return group;
  }

  /** Takes a task from the next group, which then is last if it has more tasks. */
  take(from: (group: Group) => Task | undefined): Task | undefined {
    const name = this.#order.shift();
    const group = name === undefined ? undefined : this.#byName.get(name);
    if (name === undefined || group === undefined) {
      return undefined;
    }
    const task = from(group);
    if (group.size > 0) {
      this.#order.push(name);
    } else {
      this.#byName.delete(name);
    }
    return task;
  }
}
