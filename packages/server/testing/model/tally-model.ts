// SPDX-License-Identifier: Apache-2.0
import type { Actions, AgentModel, Observations } from "./agent-model.ts";
import type { CreateSettings } from "./requests.ts";

/** A model of the author's code under test, which does little. */
export class TallyModel {
  /** The total with which the next sequence begins. */
  startAt: number;
  readonly #settings: CreateSettings;
  #total = 0;
  #tick = 0;
  #sequence = 0;
  readonly #finished = new Set<AgentModel>();

  constructor(settings: CreateSettings) {
    this.#settings = settings;
    this.startAt = settings.start;
  }

  start(): void {
    this.#total = this.startAt;
    this.#tick = 0;
    this.#sequence += 1;
    this.#finished.clear();
  }

  enter(agent: AgentModel): void {
    this.#finished.delete(agent);
  }

  /** Returns true if the author's code refuses an agent's actions now. */
  refuses({ add }: Actions): boolean {
    return add === 366 && this.#total % 2 !== 0;
  }

  tick(actions: ReadonlyMap<AgentModel, Actions>): void {
    this.#tick += 1;
    for (const [agent, { add = 0 }] of actions) {
      this.#total += add;
      if (add === 100) {
        this.#finished.add(agent);
      }
    }
  }

  stateOf(agent: AgentModel): "RUNNING" | "TERMINATED" | "INTERRUPTED" {
    if (this.#finished.has(agent)) {
      return "TERMINATED";
    }
    if (this.#tick < this.#settings.length) {
      return "RUNNING";
    }
    return this.#settings.cut ? "INTERRUPTED" : "TERMINATED";
  }

  observe(agent: AgentModel): Observations {
    return {
      total: this.#total,
      tick: this.#tick,
      sequence: this.#sequence,
      row: Array(agent.width).fill(agent.id),
      reward: agent.reward,
    };
  }
}
