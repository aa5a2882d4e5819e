// SPDX-License-Identifier: Apache-2.0
import type { Oracle } from "../patient.ts";
import { AgentModel, type Asker, outstanding } from "./agent-model.ts";
import type { Policies } from "./policies.ts";
import { type CreateSettings, codes, type Request } from "./requests.ts";
import { type SequenceHost, SequenceModel } from "./sequence-model.ts";
import { type Alarm, Deadline } from "./timers.ts";
import { Turns } from "./turns.ts";
import { WorldResetModel } from "./world-reset-model.ts";

type Step = Extract<Request, { kind: "step" }>;
type WorldStart = number | "none" | "bad";

/** Shared state of the worlds of a server. */
export interface Surroundings {
  readonly alarm: Alarm;
  /** Creates the oracle of another world. */
  readonly openOracle: () => Oracle;
  /** Opens the log of a world's calls. */
  readonly openLog: () => (event: string) => void;
  /** Called when an agent is removed, with the code of the error. */
  readonly onDismissed: (agent: AgentModel, code: number) => void;
}

/** The simplest model of the promised behaviours of one world. */
export class WorldModel implements SequenceHost {
  /** Name from the server's response. */
  name: string | undefined;
  /** Code of the error once the world is gone. */
  gone: number | undefined;
  readonly policies: Policies;
  readonly settings: CreateSettings;
  readonly alarm: Alarm;
  agents: AgentModel[] = [];
  readonly #surroundings: Surroundings;
  readonly #turns: Turns;
  readonly log: (event: string) => void;
  readonly #sequence: SequenceModel;
  readonly #opening: Deadline;
  readonly #draining: Asker[] = [];
  #cancelDrain: (() => void) | undefined;
  #reset: WorldResetModel | undefined;
  #nextId = 1;
  #made = false;
  #vacancies = 0;

  constructor(policies: Policies, settings: CreateSettings, surroundings: Surroundings) {
    this.policies = policies;
    this.settings = settings;
    this.#surroundings = surroundings;
    this.log = surroundings.openLog();
    this.#turns = new Turns(surroundings.alarm, surroundings.openOracle(), (code) =>
      this.#fail(code),
    );
    this.alarm = this.#turns;
    this.#sequence = new SequenceModel(policies.clock, settings, this);
    const { deadlineMs, policy } = { deadlineMs: undefined, policy: "wait", ...policies.clock };
    this.#opening = new Deadline(this.alarm, policy === "wait" ? undefined : deadlineMs, () => {
      for (const agent of this.#missing()) {
        if (policy === "leave") {
          this.evict(agent);
        } else {
          agent.outside = true;
        }
      }
      this.progress();
    });
  }

  get blocked(): boolean {
    const waits = this.policies.onDrop?.policy === "block";
    return this.#vacancies > 0 || (waits && this.agents.some(({ cancelHold }) => cancelHold));
  }

  /** True while its agents must wait for an agent that is absent. */
  get stuck(): boolean {
    const enough = this.#sequence.everOpened || this.agents.length >= this.settings.min_agents;
    return this.blocked || !enough;
  }

  /** Runs one operation at a time, in the order of the calls. */
  turn(operation: () => void, ended?: (code: number) => void): void {
    this.#turns.take(operation, ended);
  }

  /** Makes an author call. */
  call(operation: "start" | "step"): void {
    this.#turns.call(operation);
  }

  /** Creates the author's world, and answers the caller. */
  create(asker: Asker): void {
    const make = (): void => {
      this.#turns.call("create");
      this.#made = true;
      this.log(`create ${this.settings.length}`);
      asker.answer({ kind: "createWorld" });
    };
    this.turn(make, (code) => asker.answer({ kind: "error", code }));
  }

  // ——— requests

  /** An agent joins, and is answered. */
  join(
    asker: Asker,
    { width, key }: { readonly width: number | "bad"; readonly key: string | undefined },
    joined: (agent: AgentModel) => void,
  ): void {
    const own = this.agents.find((agent) => key !== undefined && agent.key === key);
    if (own !== undefined) {
      this.#takeAgain(own, asker);
      joined(own);
      asker.answer({ kind: "joinWorld", width: own.width });
      this.progress();
      return;
    }
    const refused = this.#refusal(width);
    if (refused !== undefined || width === "bad") {
      asker.answer({ kind: "error", code: refused ?? codes.invalidArgument });
      return;
    }
    const agent = new AgentModel(this.#nextId, asker, width, key);
    this.#nextId += 1;
    this.#turns.call("join");
    this.log(`join ${agent.id}`);
    this.agents.push(agent);
    if (this.#vacancies > 0) {
      this.#vacancies -= 1;
    }
    joined(agent);
    asker.answer({ kind: "joinWorld", width });
    this.progress();
  }

  #refusal(width: number | "bad"): number | undefined {
    if (this.gone !== undefined) {
      return this.gone;
    }
    if (this.#draining.length > 0) {
      return codes.failedPrecondition;
    }
    if (this.agents.length >= this.settings.max_agents) {
      return codes.resourceExhausted;
    }
    return width === "bad" ? codes.invalidArgument : undefined;
  }

  step(agent: AgentModel, request: Step): void {
    const bad = request.action === "out-of-range" || request.action === "unknown";
    const step = outstanding(request);
    const refused = bad || this.#sequence.refusesStep(agent, step.actions);
    if (request.requested === "unknown" || (refused && agent.playing && agent.entered)) {
      agent.asker.answer({ kind: "error", code: codes.invalidArgument });
      return;
    }
    agent.step = step;
    if (agent.untold !== undefined) {
      const { untold, playing, reward } = agent;
      agent.startAnew();
      agent.answerStep(untold.state, untold.observations);
      if (playing) {
        Object.assign(agent, { playing, reward });
      }
      this.#told(agent);
    } else if (agent.playing && agent.entered) {
      this.#sequence.clock.stepped(agent);
    } else if (agent.playing) {
      agent.outside = false;
      agent.entered = true;
      this.#sequence.clock.entered(agent);
    } else {
      agent.outside = false;
      const enters = this.#sequence.open && this.policies.lateEntry === "now";
      if (enters) {
        this.#sequence.enter(agent);
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
      this.log(`reset ${agent.id}`);
      agent.width = width;
    }
    const isRunning = agent.playing && agent.entered;
    const waits = isRunning && this.policies.onReset === "wait";
    if (isRunning && !waits) {
      this.log(`exit ${agent.id}`);
    }
    if (isRunning || !agent.playing) {
      agent.startAnew();
    } else {
      agent.untold = undefined;
    }
    agent.resetting = true;
    if (!waits) {
      agent.answerReset();
    }
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
      this.#sequence.interrupt();
      const over = (): void => this.progress();
      const { resetDeadlineMs } = this.policies;
      this.#reset = new WorldResetModel(this.agents, this.alarm, resetDeadlineMs, over);
    }
    this.#reset.ask(asker, start === "none" ? undefined : start);
    if (caller !== undefined) {
      this.#told(caller);
    }
    this.progress();
  }

  /** The stream of an agent is lost: its seat is held, or it leaves. */
  drop(agent: AgentModel, done: () => void): void {
    const { onDrop } = this.policies;
    if (onDrop === undefined || agent.key === undefined || !this.agents.includes(agent)) {
      this.leave(agent, done);
      return;
    }
    this.#withdraw(agent);
    agent.cancelHold = this.alarm.after(onDrop.holdMs, () => this.leave(agent, () => {}));
    if (onDrop.policy !== "block") {
      if (agent.playing) {
        this.log(`exit ${agent.id}`);
      }
      agent.startAnew();
      agent.outside = true;
    }
    if (onDrop.policy === "terminate") {
      this.#sequence.interrupt();
    }
    this.#told(agent);
    this.progress();
  }

  /** Withdraws the outstanding step: the agent's next step is a first one. */
  #withdraw(agent: AgentModel): void {
    if (agent.step !== undefined && agent.playing) {
      agent.step = undefined;
      this.#sequence.clock.withdrawn?.(agent);
    }
    agent.step = undefined;
    agent.resetting = false;
    agent.untold = undefined;
    agent.entered = false;
    agent.running = false;
    if (!agent.playing) {
      agent.startAnew();
      agent.outside = false;
    }
  }

  /** Another connection resumes the seat of an agent, whose old connection may not be lost yet. */
  #takeAgain(agent: AgentModel, asker: Asker): void {
    if (agent.cancelHold === undefined) {
      const outstanding = agent.step !== undefined || agent.resetting;
      this.#withdraw(agent);
      this.#surroundings.onDismissed(agent, codes.aborted);
      if (outstanding) {
        agent.asker.answer({ kind: "error", code: codes.aborted });
      }
      this.#told(agent);
    }
    agent.cancelHold?.();
    agent.cancelHold = undefined;
    agent.asker = asker;
    if (!agent.playing) {
      agent.outside = false;
    }
  }

  /**
   * An agent leaves. `done` is called after everything that follows from it, except the destruction
   * of a draining world.
   */
  leave(agent: AgentModel, done: () => void): void {
    if (!this.agents.includes(agent)) {
      done();
      return;
    }
    this.agents = this.agents.filter((other) => other !== agent);
    agent.cancelHold?.();
    agent.cancelHold = undefined;
    agent.playing = false;
    this.log(`leave ${agent.id}`);
    if (this.#sequence.everOpened && this.policies.onLeave === "block") {
      this.#vacancies += 1;
    }
    if (this.#sequence.everOpened && this.policies.onLeave === "terminate") {
      this.#sequence.interrupt();
    }
    this.#told(agent);
    try {
      this.progress();
    } finally {
      done();
    }
    if (this.#draining.length > 0 && this.agents.length === 0) {
      this.#destroy();
    }
  }

  /**
   * Removes an agent whose request waits for others; `left` is called before anything that follows.
   */
  letOut(agent: AgentModel, left: () => void): void {
    if (agent.step === undefined && !agent.resetting) {
      return;
    }
    if (agent.playing && this.#sequence.clock.isContinuous && !this.blocked) {
      return;
    }
    agent.step = undefined;
    agent.resetting = false;
    this.leave(agent, left);
    agent.asker.answer({ kind: "error", code: codes.cancelled });
  }

  /** Removes an agent that was too slow. */
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
    if (this.agents.length === 0 || onDestroy === "force") {
      this.#destroy();
    } else {
      this.#cancelDrain ??= this.alarm.after(drainDeadlineMs, () => this.#destroy());
    }
  }

  // ——— what follows

  /** Performs everything that is due, until nothing remains. */
  progress(): void {
    while (this.gone === undefined && this.#progressed()) {}
    const { open, clock } = this.#sequence;
    this.#opening.holds(!open && this.gone === undefined && this.#mayOpen());
    clock.settled();
  }

  #progressed(): boolean {
    const sequence = this.#sequence;
    if (this.#reset?.due) {
      this.#finishReset(this.#reset);
    } else if (sequence.open && sequence.playing.length === 0) {
      sequence.close();
    } else if (sequence.open) {
      return sequence.clock.progress();
    } else if (this.#mayOpen() && this.#missing().length === 0) {
      sequence.begin();
    } else {
      return false;
    }
    return true;
  }

  #mayOpen(): boolean {
    const wanted = this.#sequence.members.length > 0;
    return wanted && !this.stuck && this.#reset === undefined;
  }

  /** The agents that the next sequence waits for. */
  #missing(): readonly AgentModel[] {
    if (this.#sequence.clock.isContinuous) {
      return [];
    }
    return this.agents.filter((agent) => !agent.opening && !agent.outside);
  }

  /** A reset of the world need not wait for this agent any more. */
  #told(agent: AgentModel): void {
    this.#reset?.told(agent);
  }

  #finishReset(reset: WorldResetModel): void {
    this.#reset = undefined;
    if (reset.start !== undefined) {
      this.#sequence.startAt(reset.start);
    }
    reset.end({ kind: "resetWorld" });
  }

  #destroy(): void {
    this.log("destroy");
    this.#vanish(codes.notFound);
    this.#turns.abandon(codes.notFound);
    for (const asker of this.#draining) {
      asker.answer({ kind: "destroyWorld" });
    }
  }

  #fail(code: number): void {
    if (this.#made) {
      this.log("destroy");
    }
    this.#vanish(code);
    for (const asker of this.#draining) {
      asker.answer({ kind: "error", code });
    }
  }

  #vanish(code: number): void {
    this.gone = code;
    this.#cancelDrain?.();
    for (const agent of this.agents) {
      agent.cancelHold?.();
      this.#dismiss(agent, code);
    }
    this.agents = [];
    this.#sequence.vanish();
    this.#opening.stop();
    this.#reset?.end({ kind: "error", code });
  }

  #dismiss(agent: AgentModel, code: number): void {
    this.#surroundings.onDismissed(agent, code);
    const outstanding = agent.step !== undefined || agent.resetting;
    agent.step = undefined;
    agent.resetting = false;
    agent.playing = false;
    if (outstanding) {
      agent.asker.answer({ kind: "error", code });
    }
  }
}
