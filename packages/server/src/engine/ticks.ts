// SPDX-License-Identifier: Apache-2.0

import type { TickActions } from "../clocks/clock.ts";
import type { AgentId, SequenceState } from "../definition/agent.ts";
import type { UntypedWorld } from "../definition/world.ts";
import type { Observing } from "./observing.ts";
import type { RunningAgents } from "./running-agents.ts";
import type { Seat } from "./seat.ts";
import { atOnce, type WorldCalls, WorldFault } from "./world-calls.ts";

/** What the ticks of a world need of the sequence that they are in. */
export interface TicksHost {
  readonly world: UntypedWorld;
  readonly calls: WorldCalls;
  readonly running: RunningAgents;
  readonly observing: Observing;
  /** The world is about to move on from what it shows. */
  movingOn(): void;
  /** The last tick has ended the sequence of an agent. */
  ended(seat: Seat, state: Exclude<SequenceState, "running">): void;
  /** The world has advanced, and everybody whose sequence ended has been dealt with. */
  advanced(): void;
}

/** The ticks of a world: one after the other, with the rewards and the ends that each brings. */
export class Ticks {
  /** Ticks so far. */
  count = 0;
  readonly #host: TicksHost;
  #next: TickActions | undefined;
  #actions: TickActions = new Map();
  #isAdvancing = false;
  /** Whether the author's `step` has been called and has not come back. */
  #isStepping = false;
  /** Whether that step takes its time. */
  #isLate = false;
  /** Those whom the last tick affected; undefined for everybody. */
  #affected: ReadonlySet<Seat> | undefined;

  constructor(host: TicksHost) {
    this.#host = host;
  }

  /** Ticks, after the tick that is going on where there is one. */
  advance(actions: TickActions): void {
    this.#next = actions;
    if (this.#isAdvancing) return;
    this.#isAdvancing = true;
    this.#run();
  }

  /** Forgets what was to come. */
  stop(): void {
    this.#next = undefined;
  }

  /** Ticks until nobody asks for more; a world that takes its time comes back here. */
  #run(): void {
    const { calls, observing, running } = this.#host;
    while (this.#next !== undefined) {
      this.#actions = this.#next;
      this.#next = undefined;
      this.#host.movingOn();
      if (observing.hasRewards) {
        for (const seat of this.#affected ?? running.seats) observing.addReward(seat);
      }
      this.#isStepping = true;
      calls.call("step", this.#step, this.#stepped);
      if (this.#isStepping) {
        this.#isLate = true;
        return;
      }
    }
    this.#isAdvancing = false;
  }

  readonly #step = () => this.#host.world.step(this.#actions as ReadonlyMap<AgentId, never>);

  readonly #stepped = (): void => {
    this.#isStepping = false;
    this.#settle();
    if (!this.#isLate) return;
    this.#isLate = false;
    this.#run();
  };

  /** Finds out what the tick has brought whom. */
  #settle(): void {
    const { world, observing, running } = this.#host;
    this.count += 1;
    this.#affected = this.#askAffected();
    if (observing.hasRewards || world.status !== undefined) {
      for (const seat of this.#affected ?? running.seats) {
        seat.reward.isDue = true;
        const state = this.#status(seat);
        if (state !== "running") this.#host.ended(seat, state);
      }
    }
    this.#host.advanced();
  }

  #askAffected(): ReadonlySet<Seat> | undefined {
    const { world, calls, running } = this.#host;
    if (world.affected === undefined) return undefined;
    const affected = new Set<Seat>();
    for (const agent of calls.sync("affected", () => world.affected?.() ?? [])) {
      const seat = running.of(agent);
      if (seat !== undefined) affected.add(seat);
    }
    return affected;
  }

  #status({ agent }: Seat): SequenceState {
    try {
      return atOnce(this.#host.world.status?.(agent)) ?? "running";
    } catch (error) {
      throw new WorldFault("status", error);
    }
  }
}
