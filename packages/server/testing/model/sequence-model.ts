// SPDX-License-Identifier: Apache-2.0
import type { Actions, AgentModel } from "./agent-model.ts";
import { type ClockModel, type ClockOptions, clockModel, type Sequenced } from "./clock-models.ts";
import { type CreateSettings, codes } from "./requests.ts";
import { TallyModel } from "./tally-model.ts";
import type { Alarm } from "./timers.ts";

/** The world around a sequence. */
export interface SequenceHost {
  readonly alarm: Alarm;
  readonly agents: readonly AgentModel[];
  readonly blocked: boolean;
  /** The author's code is called. */
  call(operation: "start" | "step"): void;
  log(event: string): void;
  evict(agent: AgentModel): void;
  progress(): void;
}

/**
 * Successive sequences of a world: the agents in them, the clock's decisions, and each agent's end.
 */
export class SequenceModel implements Sequenced {
  open = false;
  /** True once a sequence has begun. */
  everOpened = false;
  readonly clock: ClockModel;
  readonly #host: SequenceHost;
  readonly #tally: TallyModel;

  constructor(clock: ClockOptions, settings: CreateSettings, host: SequenceHost) {
    this.#host = host;
    this.#tally = new TallyModel(settings);
    this.clock = clockModel(clock, this);
  }

  get alarm(): Alarm {
    return this.#host.alarm;
  }

  get blocked(): boolean {
    return this.#host.blocked;
  }

  get playing(): readonly AgentModel[] {
    return this.#host.agents.filter((agent) => agent.playing);
  }

  evict(agent: AgentModel): void {
    this.#host.evict(agent);
  }

  progress(): void {
    this.#host.progress();
  }

  /** Sets the total with which the next sequence begins. */
  startAt(total: number): void {
    this.#tally.startAt = total;
  }

  /** The agents that the next sequence begins with: in real time also those that continue. */
  get members(): readonly AgentModel[] {
    const goesOn = (agent: AgentModel): boolean =>
      this.clock.isContinuous && agent.takesPart && agent.idle;
    return this.#host.agents.filter((agent) => agent.opening || goesOn(agent));
  }

  /** Begins with the agents that are ready. */
  begin(): void {
    const { members } = this;
    this.#host.call("start");
    this.#host.log(`start ${members.map(({ id }) => id).join(",")}`);
    this.open = true;
    this.everOpened = true;
    this.#tally.start();
    for (const agent of members) {
      admit(agent);
    }
    this.clock.opened();
  }

  /** An agent enters a running sequence. */
  enter(agent: AgentModel): void {
    this.#host.log(`enter ${agent.id}`);
    this.#tally.enter(agent);
    admit(agent);
    this.clock.entered(agent);
  }

  /** Returns true if the author's code refuses an arriving step. */
  refusesStep(agent: AgentModel, given: Actions): boolean {
    const { clock } = this;
    const actions = clock.inForceWith ? clock.inForceWith(agent, given) : given;
    return actions !== undefined && this.refuses(actions);
  }

  refuses(actions: Actions): boolean {
    return this.#tally.refuses(actions);
  }

  refused(agent: AgentModel): boolean {
    if (agent.step === undefined || !this.refuses(agent.step.actions)) {
      return false;
    }
    agent.step = undefined;
    agent.asker.answer({ kind: "error", code: codes.invalidArgument });
    return true;
  }

  tick(gathered: ReadonlyMap<AgentModel, Actions>): void {
    const actions = new Map([...gathered].filter(([, each]) => !this.refuses(each)));
    this.#host.call("step");
    this.#tally.tick(actions);
    const rows = [...actions].map(([{ id }, { add }]) => `${id}:${add ?? "-"}`);
    this.#host.log(`tick ${rows.sort().join(" ")}`);
    for (const agent of this.playing) {
      agent.reward += actions.get(agent)?.add ?? 0;
    }
    for (const agent of this.playing) {
      const state = this.#tally.stateOf(agent);
      if (state !== "RUNNING") {
        this.#end(agent, state);
      }
    }
    if (this.playing.length > 0) {
      this.clock.ticked();
    }
  }

  answer(agent: AgentModel): void {
    agent.answerStep("RUNNING", this.#tally.observe(agent));
  }

  #end(agent: AgentModel, state: "TERMINATED" | "INTERRUPTED"): void {
    agent.playing = false;
    if (!agent.entered) {
      return;
    }
    if (agent.running && agent.step !== undefined) {
      agent.answerStep(state, this.#tally.observe(agent));
      return;
    }
    if (agent.step !== undefined) {
      this.answer(agent);
    }
    agent.untold = { state, observations: this.#tally.observe(agent) };
  }

  /** Cuts the sequence short; agents that wait for RUNNING keep waiting for the next one. */
  interrupt(): void {
    for (const agent of this.playing) {
      if (agent.running) {
        this.#end(agent, "INTERRUPTED");
      } else {
        agent.playing = false;
      }
    }
    if (this.open) {
      this.close();
    }
  }

  /** Ends the sequence, and answers resets that waited for it. */
  close(): void {
    this.vanish();
    for (const agent of this.#host.agents) {
      if (agent.resetting) {
        agent.answerReset();
      }
    }
  }

  /** Drops the sequence, because its world is gone. */
  vanish(): void {
    this.open = false;
    this.clock.closed();
  }
}

function admit(agent: AgentModel): void {
  agent.playing = true;
  agent.entered = agent.step !== undefined;
  agent.takesPart = true;
  agent.reward = 0;
  agent.last = undefined;
}
