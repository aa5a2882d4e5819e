// SPDX-License-Identifier: Apache-2.0
import type { LeavePolicy } from "../../src/world.ts";
import type { Oracle } from "../patient.ts";
import { type Actions, AgentModel, type Asker, outstanding } from "./agent-model.ts";
import { type ClockModel, type ClockOptions, clockModel, type Sequenced } from "./clock-models.ts";
import { type CreateSettings, codes, type Request } from "./requests.ts";
import { TallyModel } from "./tally-model.ts";
import { type Alarm, Deadline } from "./timers.ts";
import { Turns } from "./turns.ts";

/** The choices of a world under test. */
export interface Policies {
  readonly clock: ClockOptions;
  readonly onLeave: LeavePolicy;
  readonly onReset: "respawn" | "wait";
  readonly lateEntry: "now" | "next-sequence";
  readonly onDestroy: "refuse" | "drain" | "force";
  readonly resetDeadlineMs: number;
  readonly drainDeadlineMs: number;
}

type Step = Extract<Request, { kind: "step" }>;
type WorldStart = number | "none" | "bad";

interface WorldReset {
  readonly untold: Set<AgentModel>;
  readonly callers: Asker[];
  readonly deadline: Deadline;
  start: number | undefined;
}

/** What a world shares with the others on its server. */
export interface Surroundings {
  readonly alarm: Alarm;
  readonly oracle: Oracle;
  /** Told what the author's code must have been called with, in order. */
  /** Where a world notes what it is told. */
  readonly openLog: () => (event: string) => void;
  /** Told that an agent has no place any more, and the code of the reason. */
  readonly onDismissed: (agent: AgentModel, code: number) => void;
}

/** What the promises say about one world, told as simply as can be. */
export class WorldModel implements Sequenced {
  /** As the server called it; learnt from its answer. */
  name: string | undefined;
  /** Why it is there no more. */
  gone: number | undefined;
  readonly policies: Policies;
  readonly settings: CreateSettings;
  readonly alarm: Alarm;
  agents: AgentModel[] = [];
  open = false;
  readonly #surroundings: Surroundings;
  readonly #turns: Turns;
  readonly #log: (event: string) => void;
  readonly #clock: ClockModel;
  readonly #opening: Deadline;
  readonly #draining: Asker[] = [];
  #cancelDrain: (() => void) | undefined;
  #reset: WorldReset | undefined;
  #nextId = 1;
  #made = false;
  #everOpened = false;
  #vacancies = 0;
  readonly #tally: TallyModel;

  constructor(policies: Policies, settings: CreateSettings, surroundings: Surroundings) {
    this.policies = policies;
    this.settings = settings;
    this.#surroundings = surroundings;
    this.#log = surroundings.openLog();
    this.#tally = new TallyModel(settings);
    this.#turns = new Turns(surroundings.alarm, surroundings.oracle, (code) => this.#fail(code));
    this.alarm = this.#turns;
    this.#clock = clockModel(policies.clock, this);
    const { deadlineMs, policy } = { deadlineMs: undefined, policy: "wait", ...policies.clock };
    this.#opening = new Deadline(this.alarm, policy === "wait" ? undefined : deadlineMs, () => {
      for (const agent of this.#missing()) {
        if (policy === "leave") this.evict(agent);
        else agent.outside = true;
      }
      this.progress();
    });
  }

  get blocked(): boolean {
    return this.#vacancies > 0;
  }

  /** Whether its agents must wait for somebody who is not there. */
  get stuck(): boolean {
    const enough = this.#everOpened || this.agents.length >= this.settings.min_agents;
    return this.blocked || !enough;
  }

  get playing(): readonly AgentModel[] {
    return this.agents.filter((agent) => agent.playing);
  }

  /** Does one thing at a time, in the order in which they were asked. */
  turn(operation: () => void, ended?: (code: number) => void): void {
    this.#turns.take(operation, ended);
  }

  /** The author's world is made; whoever asked is told. */
  create(asker: Asker): void {
    const make = (): void => {
      this.#turns.call("create");
      this.#made = true;
      this.#log(`create ${this.settings.length}`);
      asker.answer({ kind: "createWorld" });
    };
    this.turn(make, (code) => asker.answer({ kind: "error", code }));
  }

  // ——— requests

  /** An agent joins, and is answered. */
  join(asker: Asker, width: number | "bad", joined: (agent: AgentModel) => void): void {
    const refused = this.#refusal(width);
    if (refused !== undefined || width === "bad") {
      asker.answer({ kind: "error", code: refused ?? codes.invalidArgument });
      return;
    }
    const agent = new AgentModel(this.#nextId, asker, width);
    this.#nextId += 1;
    this.#turns.call("join");
    this.#log(`join ${agent.id}`);
    this.agents.push(agent);
    if (this.#vacancies > 0) this.#vacancies -= 1;
    joined(agent);
    asker.answer({ kind: "joinWorld", width });
    this.progress();
  }

  #refusal(width: number | "bad"): number | undefined {
    if (this.gone !== undefined) return this.gone;
    if (this.#draining.length > 0) return codes.failedPrecondition;
    if (this.agents.length >= this.settings.max_agents) return codes.resourceExhausted;
    return width === "bad" ? codes.invalidArgument : undefined;
  }

  step(agent: AgentModel, request: Step): void {
    const bad = request.action === "out-of-range" || request.action === "unknown";
    if (request.requested === "unknown" || (bad && agent.playing)) {
      agent.asker.answer({ kind: "error", code: codes.invalidArgument });
      return;
    }
    agent.step = outstanding(request);
    if (agent.untold !== undefined) {
      const { state, observations } = agent.untold;
      agent.startAnew();
      agent.answerStep(state, observations);
      this.#told(agent);
    } else if (agent.playing) {
      this.#clock.stepped(agent);
    } else {
      agent.outside = false;
      if (this.open && this.policies.lateEntry === "now") {
        this.#log(`enter ${agent.id}`);
        this.#tally.enter(agent);
        this.#admit(agent);
        this.#clock.entered(agent);
      }
    }
    this.progress();
  }

  reset(agent: AgentModel, width: number | "none" | "bad"): void {
    if (width === "bad") {
      agent.asker.answer({ kind: "error", code: codes.invalidArgument });
      return;
    }
    if (width !== "none") {
      this.#log(`reset ${agent.id}`);
      agent.width = width;
    }
    const waits = agent.playing && this.policies.onReset === "wait";
    if (agent.playing && !waits) this.#log(`exit ${agent.id}`);
    agent.startAnew();
    agent.resetting = true;
    if (!waits) this.#answerReset(agent);
    this.#told(agent);
    this.progress();
  }

  resetWorld(asker: Asker, caller: AgentModel | undefined, start: WorldStart): void {
    if (this.gone !== undefined) {
      asker.answer({ kind: "error", code: this.gone });
      return;
    }
    if (start === "bad") {
      asker.answer({ kind: "error", code: codes.invalidArgument });
      return;
    }
    caller?.startAnew();
    if (this.#reset === undefined) {
      this.#interrupt();
      const deadline = new Deadline(this.alarm, this.policies.resetDeadlineMs, () => {
        for (const agent of this.#reset?.untold ?? []) agent.outside = true;
        this.#reset?.untold.clear();
        this.progress();
      });
      const untold = this.agents.filter((agent) => agent.untold !== undefined && !agent.outside);
      this.#reset = { untold: new Set(untold), callers: [], deadline, start: undefined };
      deadline.holds(true);
    }
    this.#reset.callers.push(asker);
    if (start !== "none") this.#reset.start = start;
    if (caller !== undefined) this.#reset.untold.delete(caller);
    this.progress();
  }

  /** An agent leaves; `done` once that is over, but for the end of a world which waits for it. */
  leave(agent: AgentModel, done: () => void): void {
    if (!this.agents.includes(agent)) {
      done();
      return;
    }
    this.agents = this.agents.filter((other) => other !== agent);
    agent.playing = false;
    this.#log(`leave ${agent.id}`);
    if (this.#everOpened && this.policies.onLeave === "block") this.#vacancies += 1;
    if (this.#everOpened && this.policies.onLeave === "terminate") this.#interrupt();
    this.#told(agent);
    try {
      this.progress();
    } finally {
      done();
    }
    if (this.#draining.length > 0 && this.agents.length === 0) this.#destroy();
  }

  /** Takes out an agent that was too slow. */
  evict(agent: AgentModel): void {
    this.#dismiss(agent, codes.deadlineExceeded);
    this.leave(agent, () => {});
  }

  destroy(asker: Asker): void {
    if (this.gone !== undefined) {
      asker.answer({ kind: "error", code: this.gone });
      return;
    }
    const { onDestroy, drainDeadlineMs } = this.policies;
    if (this.agents.length > 0 && onDestroy === "refuse") {
      asker.answer({ kind: "error", code: codes.failedPrecondition });
      return;
    }
    this.#draining.push(asker);
    if (this.agents.length === 0 || onDestroy === "force") this.#destroy();
    else this.#cancelDrain ??= this.alarm.after(drainDeadlineMs, () => this.#destroy());
  }

  // ——— what follows

  /** Does whatever is due, until nothing is. */
  progress(): void {
    while (this.gone === undefined && this.#progressed());
    this.#opening.holds(!this.open && this.gone === undefined && this.#mayOpen());
    this.#clock.settled();
  }

  #progressed(): boolean {
    if (this.#reset?.untold.size === 0) this.#finishReset(this.#reset);
    else if (this.open && this.playing.length === 0) this.#close();
    else if (this.open) return this.#clock.progress();
    else if (this.#mayOpen() && this.#missing().length === 0) this.#openSequence();
    else return false;
    return true;
  }

  #mayOpen(): boolean {
    const wanted = this.agents.some((agent) => agent.opening);
    return wanted && !this.stuck && this.#reset === undefined;
  }

  /** The agents that the next sequence waits for. */
  #missing(): readonly AgentModel[] {
    return this.agents.filter((agent) => !agent.opening && !agent.outside);
  }

  #openSequence(): void {
    const opening = this.agents.filter((agent) => agent.opening);
    this.#turns.call("start");
    this.#log(`start ${opening.map(({ id }) => id).join(",")}`);
    this.open = true;
    this.#everOpened = true;
    this.#tally.start();
    for (const agent of opening) this.#admit(agent);
    this.#clock.opened();
  }

  #admit(agent: AgentModel): void {
    agent.playing = true;
    agent.reward = 0;
    agent.last = undefined;
  }

  tick(actions: ReadonlyMap<AgentModel, Actions>): void {
    this.#turns.call("step");
    this.#tally.tick(actions);
    const rows = [...actions].map(([{ id }, { add }]) => `${id}:${add ?? "-"}`);
    this.#log(`tick ${rows.sort().join(" ")}`);
    for (const agent of this.playing) agent.reward += actions.get(agent)?.add ?? 0;
    for (const agent of this.playing) {
      const state = this.#tally.stateOf(agent);
      if (state !== "RUNNING") this.#end(agent, state);
    }
    if (this.playing.length > 0) this.#clock.ticked();
  }

  answer(agent: AgentModel): void {
    agent.answerStep("RUNNING", this.#tally.observe(agent));
  }

  #end(agent: AgentModel, state: "TERMINATED" | "INTERRUPTED"): void {
    agent.playing = false;
    if (agent.running && agent.step !== undefined) {
      agent.answerStep(state, this.#tally.observe(agent));
      return;
    }
    if (agent.step !== undefined) this.answer(agent);
    agent.untold = { state, observations: this.#tally.observe(agent) };
  }

  /** Cuts the sequence short; who waits to be told RUNNING waits on, for the next one. */
  #interrupt(): void {
    for (const agent of this.playing) {
      if (agent.running) this.#end(agent, "INTERRUPTED");
      else agent.playing = false;
    }
    if (this.open) this.#close();
  }

  #close(): void {
    this.open = false;
    this.#clock.closed();
    for (const agent of this.agents) if (agent.resetting) this.#answerReset(agent);
  }

  #answerReset(agent: AgentModel): void {
    agent.resetting = false;
    agent.asker.answer({ kind: "reset", width: agent.width });
  }

  /** A reset of the world need not wait for this agent any more. */
  #told(agent: AgentModel): void {
    this.#reset?.untold.delete(agent);
  }

  #finishReset({ callers, deadline, start }: WorldReset): void {
    deadline.stop();
    this.#reset = undefined;
    if (start !== undefined) this.#tally.startAt = start;
    for (const caller of callers) caller.answer({ kind: "resetWorld" });
  }

  #destroy(): void {
    this.#log("destroy");
    this.#vanish(codes.notFound);
    this.#turns.abandon(codes.notFound);
    for (const asker of this.#draining) asker.answer({ kind: "destroyWorld" });
  }

  #fail(code: number): void {
    if (this.#made) this.#log("destroy");
    this.#vanish(code);
    for (const asker of this.#draining) asker.answer({ kind: "error", code });
  }

  #vanish(code: number): void {
    this.gone = code;
    this.#cancelDrain?.();
    for (const agent of this.agents) this.#dismiss(agent, code);
    this.agents = [];
    this.open = false;
    this.#clock.closed();
    this.#opening.stop();
    this.#reset?.deadline.stop();
    for (const caller of this.#reset?.callers ?? []) caller.answer({ kind: "error", code });
  }

  #dismiss(agent: AgentModel, code: number): void {
    this.#surroundings.onDismissed(agent, code);
    const outstanding = agent.step !== undefined || agent.resetting;
    agent.step = undefined;
    agent.resetting = false;
    agent.playing = false;
    if (outstanding) agent.asker.answer({ kind: "error", code });
  }
}
