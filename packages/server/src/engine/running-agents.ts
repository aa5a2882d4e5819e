// SPDX-License-Identifier: Apache-2.0
import type { AgentId } from "../definition/agent.ts";
import type { Seat } from "./seat.ts";

/** The RUNNING agents of a sequence, each found in the same time however many there are. */
export class RunningAgents {
  #seats = new Set<Seat>();
  readonly #byAgent = new Map<AgentId, Seat>();
  /** The highest agent that was added since there was none. */
  #highest = 0;
  #isOrdered = true;

  /** In the order in which they joined. Another set once an agent has come back to its old place. */
  get seats(): ReadonlySet<Seat> {
    if (!this.#isOrdered) {
      this.#seats = new Set([...this.#seats].sort((a, b) => a.agent - b.agent));
      this.#isOrdered = true;
    }
    return this.#seats;
  }

  get size(): number {
    return this.#seats.size;
  }

  of(agent: AgentId): Seat | undefined {
    return this.#byAgent.get(agent);
  }

  add(seat: Seat): void {
    if (this.#seats.size === 0) this.#highest = 0;
    if (seat.agent < this.#highest) this.#isOrdered = false;
    else this.#highest = seat.agent;
    this.#seats.add(seat);
    this.#byAgent.set(seat.agent, seat);
  }

  /** Whether the agent was among them. */
  delete(seat: Seat): boolean {
    this.#byAgent.delete(seat.agent);
    return this.#seats.delete(seat);
  }
}
