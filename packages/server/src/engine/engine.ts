// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { EnvironmentStateType, ResetResponseSchema } from "@dm-env-rpc/protocol";
import { DmEnvRpcError, isDmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import type { StepRequest, UidTensor } from "@dm-env-rpc/tensor-codec/wire";
import { Queue } from "@dm-env-rpc/transport/internal";
import { type Deadline, deadlineOf, goesOn } from "../clocks/deadline.ts";
import { lockstep } from "../clocks/lockstep.ts";
import type { AgentId, SequenceState } from "../definition/agent.ts";
import type { Awaitable } from "../definition/awaitable.ts";
import type { ActionValues, Clock, ClockDriver, TickActions } from "../definition/clock.ts";
import type { ObservationChecks } from "../definition/observation-checks.ts";
import { isStepRefusal } from "../definition/refuse.ts";
import { readSettings } from "../definition/settings.ts";
import type { DropPolicy, UntypedWorld, UntypedWorldDefinition } from "../definition/world.ts";
import { atOnce, isRefusal, WorldFault, worldFailure } from "./author-calls.ts";
import { AuthorsWorld } from "./authors-world.ts";
import { type ClockDecisions, ClockView } from "./clock-view.ts";
import { destroyedWorld, mayDestroyNow } from "./destroy-policy.ts";
import { fullWorld } from "./full-world.ts";
import { Observing } from "./observing.ts";
import type { Outside, WorldEnd } from "./outside.ts";
import type { AuthorCall, Done, PackedSettings, Reply } from "./requests.ts";
import { clientError, errorResponse, keepable } from "./responses.ts";
import { RewardSum } from "./rewards.ts";
import { type EndBytes, SavedEnds } from "./saved-ends.ts";
import { noActions, type SeatSpecs } from "./seat-specs.ts";
import {
  type Ended,
  emptyWorld,
  type Idle,
  isBlocked,
  type OutstandingStep,
  type Resetting,
  type RowStep,
  type Running,
  type Seat,
  type SeatState,
  type SeatView,
  type WorldReset,
  type WorldState,
  type WorldView,
} from "./state.ts";
import type { Settings, WorldSettings } from "./world-settings.ts";

const { RUNNING, TERMINATED, INTERRUPTED } = EnvironmentStateType;

/**
 * From this number of agents on, the answers of one tick may take several turns of the event loop, and so may saving
 * undelivered ends. For fewer agents, reading the clock would cost more than it gains.
 */
const manyAgents = 8;

const idle: Idle = { kind: "idle", excused: false };
const excusedIdle: Idle = { kind: "idle", excused: true };

/** Options of an engine. */
export interface EngineOptions {
  readonly name: string;
  readonly definition: UntypedWorldDefinition;
  readonly settings: WorldSettings;
  readonly maxAgentsPerWorld: number;
  readonly checkObservations: ObservationChecks;
  readonly endBytes: EndBytes;
  readonly outside: Outside;
}

/** An answer that waits for a later turn of the event loop. */
interface LateAnswer {
  readonly of: Running;
  readonly step: OutstandingStep;
  readonly state: EnvironmentStateType;
}

/** The author's side of a created world. */
interface Play {
  readonly world: UntypedWorld;
  readonly observing: Observing;
  readonly clock: ClockDriver;
}

/**
 * The rules of the protocol for one world: every transition of its seats and sequences, and the only
 * writer of its state.
 *
 * Each public method is one transition, except `hasSeat` and the getters, which only read.
 * `WorldHost` runs one transition at a time and passes thrown errors to `fail`; only `destroyNow`
 * and `fail` may run while another transition is pending.
 *
 * A step enters by `step`. The clock answers it, now or later, through `SequenceControl`, unless the sequence of its
 * agent ends: `#endFor` answers with the end.
 */
export class Engine {
  readonly #name: string;
  readonly #definition: UntypedWorldDefinition;
  readonly #settings: WorldSettings;
  readonly #maxAgentsPerWorld: number;
  readonly #checkObservations: ObservationChecks;
  readonly #outside: Outside;
  readonly #clock: Clock;
  readonly #author: AuthorsWorld;
  readonly #state: WorldState = emptyWorld();
  /** Limits the wait for first steps. */
  readonly #openingDeadline: Deadline;
  readonly #savedEnds: SavedEnds;
  /** Undefined until the author's `create` has finished. */
  #play: Play | undefined;

  constructor(options: EngineOptions) {
    const { name, definition, outside } = options;
    this.#name = name;
    this.#definition = definition;
    this.#settings = options.settings;
    this.#maxAgentsPerWorld = options.maxAgentsPerWorld;
    this.#checkObservations = options.checkObservations;
    this.#outside = outside;
    this.#clock = definition.clock ?? lockstep();
    this.#author = new AuthorsWorld({ name, definition, outside });
    this.#openingDeadline = deadlineOf(outside, this.#clock, () =>
      this.#afterEnds(() => this.#openingOverdue()),
    );
    this.#savedEnds = new SavedEnds(options.endBytes);
  }

  get state(): WorldView {
    return this.#state;
  }

  /** @throws Error if the author's world is not created yet. */
  get world(): UntypedWorld {
    return made(this.#play).world;
  }

  // ——— Requests about the world: each gets exactly one outcome, whatever happens to the world
  // meanwhile.

  #request<T>(done: Done<T>, transition: (finish: Done<T>) => void): void {
    const { gone, unanswered } = this.#state;
    if (gone !== undefined) {
      done(gone);
      return;
    }
    const finish: Done<T> = (result) => {
      if (unanswered.delete(finish)) {
        done(result);
      }
    };
    unanswered.add(finish);
    try {
      transition(finish);
    } catch (error) {
      if (!isRefusal(error)) {
        throw error;
      }
      finish(clientError(error));
    }
  }

  /** Creates the author's world (behaviours 21, 24). */
  create(done: Done<undefined>): void {
    this.#request(done, (finish) =>
      this.#author.create(
        this.#settings,
        (world) => {
          const observing = new Observing(world.observe, this.#checkObservations);
          const view = new ClockView(this.#state, this.#outside, this.#clockDecisions());
          const clock = this.#clock.start(view);
          this.#play = { world, observing, clock };
          finish(undefined);
        },
        (error) => this.#end(clientError(error), "refused"),
      ),
    );
  }

  /** Calls an author's function for one request; no transition runs until its promise settles (behaviour 46). */
  call<T>(call: AuthorCall, run: () => Awaitable<T>, done: Done<{ readonly value: T }>): void {
    this.#request(done, (finish) => {
      const callAuthor = (): void => {
        this.#outside.call(
          "properties",
          run,
          (value) => finish({ value }),
          (error) => finish(clientError(error)),
          call.name,
        );
      };
      if (call.mayChange) {
        this.#afterEnds(callAuthor);
      } else {
        callAuthor();
      }
    });
  }

  // ——— An agent joins (behaviours 26, 27).

  /** @param key Key with which the agent can resume its seat, if any. */
  join(settings: PackedSettings, onLeft: Seat["onLeft"], done: Done<SeatView>, key?: string): void {
    this.#request(done, (finish) => {
      const { closing, draining, seats } = this.#state;
      const own = key === undefined ? undefined : this.#seatOf(key);
      if (own !== undefined) {
        finish(this.#takeAgain(own, onLeft));
        this.#finishResetIfDelivered();
        this.#changed();
        return;
      }
      if (closing !== undefined) {
        throw closing;
      }
      if (draining !== undefined) {
        throw drainingWorld(this.#name);
      }
      const max = this.#settings.counts.max;
      const full = fullWorld(this.#name, seats.size, max, this.#maxAgentsPerWorld);
      if (full !== undefined) {
        throw full;
      }
      const values = readSettings(this.#definition.joinSettings ?? {}, settings, "join", false);
      const specs = this.#specsFor(values);
      this.#state.lastAgent += 1;
      const seat: Seat = {
        agent: this.#state.lastAgent as AgentId,
        specs,
        settings: values,
        state: idle,
        takesPart: false,
        missedMove: undefined,
        requested: [],
        key,
        isResumed: false,
        held: undefined,
        onLeft,
      };
      const { world, observing } = made(this.#play);
      observing.check(specs);
      this.#afterEnds(() =>
        this.#outside.call(
          "join",
          () => world.join?.(seat.agent, values),
          () => {
            this.#take(seat);
            finish(seat);
            this.#changed();
          },
          (error) => finish(clientError(error)),
        ),
      );
    });
  }

  #take(seat: Seat): void {
    const state = this.#state;
    state.seats.set(seat.agent, seat);
    if (state.vacancies > 0) {
      state.vacancies -= 1;
    }
    this.#outside.emit({ kind: "agent-joined", agent: seat.agent });
  }

  /** @throws DmEnvRpcError, TensorError if the author's specs refuse the settings. */
  #specsFor(settings: Settings): SeatSpecs {
    return this.#settings.specsFor(settings, (name, run) => this.#outside.refusal(name, run));
  }

  // ——— An agent's stream is lost, and the agent resumes its seat (behaviour 77).

  /**
   * Holds the seat of an agent whose stream was lost, if the world has such a policy; otherwise the
   * agent leaves.
   *
   * @param onHeld Called if the seat is held.
   */
  drop(seat: Seat, onHeld: () => void): void {
    const { onDrop } = this.#definition;
    const isOut = seat.state.kind === "gone" || this.#state.closing !== undefined;
    if (onDrop === undefined || seat.key === undefined || isOut) {
      this.leave(seat, () => {});
      return;
    }
    this.#afterEnds(() => this.#hold(seat, onDrop, onHeld));
  }

  #hold(seat: Seat, { holdMs, policy }: DropPolicy, onHeld: () => void): void {
    this.#withdraw(seat, lostStream());
    const blocks = policy === "block";
    const cancelDeadline = this.#outside.after(holdMs, () => this.leave(seat, () => {}));
    seat.held = { cancelDeadline, blocks };
    onHeld();
    if (blocks) {
      this.#state.blockingSeats += 1;
    } else {
      this.#takeOut(seat);
    }
    if (policy === "terminate") {
      this.#interrupt();
    }
    this.#finishResetIfDelivered();
    this.#changed();
  }

  hasSeat(key: string): boolean {
    return this.#seatOf(key) !== undefined;
  }

  #seatOf(key: string): Seat | undefined {
    return [...this.#state.seats.values()].find((seat) => seat.key === key);
  }

  /**
   * Answers the outstanding request of an agent with an error; the agent's next step is a first
   * step.
   */
  #withdraw(seat: Seat, reason: DmEnvRpcError): void {
    const { state } = seat;
    const reply = outstandingReply(state);
    if (state.kind === "running") {
      if (state.pending !== undefined) {
        state.pending = undefined;
        this.#state.waiting -= 1;
        made(this.#play).clock.withdrawn?.(state);
      }
      state.entered = false;
      this.#discardUndelivered(state);
    } else {
      if (state.kind === "resetting") {
        seat.specs = state.specs;
      }
      this.#become(seat, idle);
    }
    reply?.(errorResponse(reason));
  }

  /** Takes an agent whose seat is held out of the sequence; the others continue. */
  #takeOut(seat: Seat): void {
    if (seat.state.kind === "running") {
      const { world } = made(this.#play);
      this.#saveEnds();
      this.#outside.sync("exit", () => world.exit?.(seat.agent));
    }
    this.#become(seat, excusedIdle);
  }

  #release(seat: Seat): void {
    if (seat.held === undefined) {
      return;
    }
    seat.held.cancelDeadline();
    if (seat.held.blocks) {
      this.#state.blockingSeats -= 1;
    }
    seat.held = undefined;
  }

  /**
   * Moves an agent to a new seat for its new connection. The loss of the old connection may not
   * have been reported yet. The state of a RUNNING agent moves unchanged, because `#become` would
   * take the agent out of the sequence and drop a reward that is due.
   */
  #takeAgain(seat: Seat, onLeft: Seat["onLeft"]): Seat {
    if (seat.held === undefined) {
      seat.onLeft(takenAgain());
      this.#withdraw(seat, takenAgain());
    }
    this.#release(seat);
    // A copy, because requests of the old connection in the turnstile's queue are for the old seat,
    // which is gone.
    const again: Seat = { ...seat, isResumed: true, onLeft };
    seat.state = { kind: "gone", reason: takenAgain() };
    this.#state.seats.set(again.agent, again);
    if (again.state.kind === "running") {
      again.state.seat = again;
    } else {
      this.#become(again, idle);
    }
    return again;
  }

  // ——— An agent leaves or is taken out (behaviours 29, 43).

  /**
   * Removes an agent that asked to leave, or whose stream ended. A no-op if the agent is already
   * removed.
   */
  leave(seat: Seat, done: Done<undefined>): void {
    const left: Done<undefined> = () => done(undefined);
    this.#request(left, (finish) =>
      this.#afterEnds(() => {
        this.#remove(seat, undefined);
        finish(undefined);
        this.#destroyIfDrained();
      }),
    );
  }

  /**
   * Removes an agent. Its later requests are answered with the reason, if any. An outstanding
   * request is not answered here: the caller answers it, unless the agent's stream is lost.
   */
  #remove(seat: Seat, reason: DmEnvRpcError | undefined): void {
    const state = this.#state;
    const { onLeave } = this.#definition;
    const { world } = made(this.#play);
    if (state.seats.get(seat.agent) !== seat) {
      return; // Already removed, or another connection has resumed the seat.
    }
    state.seats.delete(seat.agent);
    this.#release(seat);
    this.#left(seat, reason);
    if (seat.state.kind !== "gone") {
      this.#become(seat, { kind: "gone", reason: reason && keepable(reason) });
    }
    this.#saveEnds();
    this.#outside.sync("leave", () => world.leave?.(seat.agent));
    if (state.sequences > 0) {
      if (onLeave === "block") {
        state.vacancies += 1;
      } else if (onLeave === "terminate") {
        this.#interrupt();
      }
    }
    this.#finishResetIfDelivered();
    this.#changed();
    if (state.seats.size === 0) {
      this.#outside.emit({ kind: "emptied" });
    }
  }

  #left(seat: Seat, reason: DmEnvRpcError | undefined): void {
    this.#outside.emit({ kind: "agent-left", agent: seat.agent, reason });
    seat.onLeft(reason && keepable(reason));
  }

  /**
   * Removes an agent whose request waits for other agents: the request is answered with an error,
   * and the agent leaves (behaviour 67). A no-op if the world advances without waiting for another
   * agent, because every agent has a step outstanding or the clock is continuous.
   */
  leaveIfWaiting(seat: Seat): void {
    const reply = outstandingReply(seat.state);
    if (reply === undefined) {
      return;
    }
    const { waiting, running } = this.#state;
    const movesByItself =
      !isBlocked(this.#state) && (this.#isContinuous || waiting === running.size);
    if (seat.state.kind === "running" && movesByItself) {
      return;
    }
    this.#afterEnds(() => {
      const reason = leftWhileWaiting();
      this.#become(seat, { kind: "gone", reason });
      try {
        this.#remove(seat, undefined);
      } finally {
        reply(errorResponse(reason)); // The world may have failed, and it no longer answers this seat.
      }
      this.#destroyIfDrained();
    });
  }

  /** Answers the outstanding request of a seat with the reason why it is gone. */
  #dismiss(seat: Seat, reason: DmEnvRpcError): void {
    const reply = outstandingReply(seat.state);
    this.#become(seat, { kind: "gone", reason: keepable(reason) });
    reply?.(errorResponse(reason));
  }

  // ——— A step arrives (behaviours 32, 34, 35, 62).

  /**
   * Processes a step. A step that is refused on arrival changes nothing, because it is read and
   * checked before anything else happens. A step that the world refuses later, in its tick, has
   * counted as the agent's step.
   */
  step(seat: Seat, request: StepRequest, reply: Reply): void {
    const { state, specs } = seat;
    const refusal = this.#stepRefusal(state);
    if (refusal !== undefined) {
      reply(errorResponse(refusal));
      return;
    }
    const first = isFirst(state);
    let step: OutstandingStep;
    try {
      const requested = specs.readRequested(request);
      const actions: ActionValues = first ? noActions : specs.readActions(request);
      step = { actions, requested, reply, first, move: this.#state.moves };
    } catch (error) {
      reply(errorResponse(error));
      return;
    }
    if (state.kind === "running" && !first && !this.#isAccepted(state, step)) {
      return;
    }
    seat.missedMove = undefined;
    seat.requested = step.requested;
    this.#state.steps += 1;
    if (state.kind === "running" && state.undelivered !== undefined) {
      this.#deliverEnd(state.undelivered, step);
    } else if (state.kind === "running") {
      state.pending = step;
      this.#state.waiting += 1;
      const { clock } = made(this.#play);
      if (first) {
        state.entered = true;
        clock.entered(state);
      } else {
        clock.stepped(state);
      }
    } else if (state.kind === "ended") {
      this.#deliverEnd(state, step);
    } else {
      this.#firstStep(seat, step);
    }
  }

  /**
   * Processes the steps of several agents, in order. All steps are checked before the first is
   * processed.
   *
   * @param refuse Receives the error and index of the first refused step; no step is processed
   * then.
   */
  stepAll(steps: readonly RowStep<Seat>[], refuse: (error: unknown, index: number) => void): void {
    if (steps.every(({ seat }) => seat.state.kind === "ended")) {
      this.#stepAll(steps, refuse); // Delivers ends, and need not save them.
    } else {
      const goOn = (): void => this.#stepAll(steps, refuse);
      this.#afterEnds(goOn, () => refuse(this.#state.gone, 0));
    }
  }

  #stepAll(steps: readonly RowStep<Seat>[], refuse: (error: unknown, index: number) => void): void {
    for (const [index, { seat, request }] of steps.entries()) {
      const refusal = this.#stepRefusal(seat.state) ?? this.#misfit(seat, request);
      if (refusal !== undefined) {
        refuse(refusal, index);
        return;
      }
    }
    this.#isSteppingAll = true;
    try {
      for (const { seat, request, reply } of steps) {
        this.step(seat, request, reply);
      }
    } finally {
      this.#isSteppingAll = false;
    }
  }

  /** Returns the error of a step that does not fit its specs or that the world refuses. */
  #misfit(seat: Seat, request: StepRequest): unknown {
    let actions: ActionValues;
    try {
      seat.specs.readRequested(request);
      if (isFirst(seat.state)) {
        return undefined;
      }
      actions = seat.specs.readActions(request);
    } catch (error) {
      return error;
    }
    try {
      return this.#validate(seat.agent, actions);
    } catch (error) {
      this.fail(error);
      return this.#state.gone;
    }
  }

  /** Has the world validate a step that arrived, and answers it if it is refused (behaviour 68). */
  #isAccepted(running: Running, { actions, reply }: OutstandingStep): boolean {
    const { clock } = made(this.#play);
    const proposed = clock.inForceWith ? clock.inForceWith(running, actions) : actions;
    if (proposed === undefined) {
      return true;
    }
    try {
      const refused = this.#validate(running.agent, proposed);
      if (refused !== undefined) {
        reply(errorResponse(refused));
      }
      return refused === undefined;
    } catch (error) {
      this.#failRequest(error, reply);
      return false;
    }
  }

  /** Returns the error with which the world now refuses actions; undefined if it accepts them. */
  #validate(agent: AgentId, actions: ActionValues): Error | undefined {
    const { world } = made(this.#play);
    if (world.validate === undefined) {
      return undefined;
    }
    return this.#outside.refusal("validate", () => world.validate?.(agent, actions as never));
  }

  #stepRefusal(state: SeatState): DmEnvRpcError | undefined {
    switch (state.kind) {
      case "running":
        return state.pending === undefined ? undefined : alreadyOutstanding();
      case "ended":
        return undefined;
      case "idle":
        return this.#state.closing;
      case "opening":
      case "resetting":
        return alreadyOutstanding();
      case "gone":
        return state.reason ?? leftAlready();
    }
  }

  #firstStep(seat: Seat, step: OutstandingStep): void {
    const { lateEntry = "now" } = this.#definition;
    this.#become(seat, { kind: "opening", step });
    if (this.#state.sequence === "open" && lateEntry === "now") {
      this.#enter(seat, step);
    } else {
      this.#openIfReady();
    }
  }

  /** Lets an agent enter the sequence that others are in (behaviour 62). */
  #enter(seat: Seat, step: OutstandingStep): void {
    const { world, clock } = made(this.#play);
    this.#afterEnds(() => {
      const refused = this.#outside.refusal("enter", () => world.enter?.(seat.agent));
      if (refused === undefined) {
        clock.entered(this.#admit(seat, step));
      } else {
        this.#refuseFirstStep(seat, step, refused);
      }
    });
  }

  #refuseFirstStep(seat: Seat, step: OutstandingStep, reason: Error): void {
    this.#become(seat, idle);
    step.reply(errorResponse(reason));
  }

  // ——— A sequence begins: the barrier of first steps (behaviours 28, 60).

  get #isContinuous(): boolean {
    return this.#clock.continuous === true;
  }

  /**
   * Begins a sequence if every agent that it waits for has a first step outstanding, or on a
   * continuous clock if at least one agent takes part (behaviour 65).
   */
  #openIfReady(): void {
    const { opening, excused, seats } = this.#state;
    if (this.#isContinuous) {
      if (this.#mayOpen() && this.#members().length > 0) {
        this.#open();
      }
    } else if (opening === 0 || !this.#mayOpen()) {
      this.#openingDeadline.disarm();
    } else if (opening + excused < seats.size) {
      this.#openingDeadline.arm();
    } else {
      this.#openingDeadline.disarm();
      this.#open();
    }
  }

  #mayOpen(): boolean {
    const { sequence, sequences, reset, closing, seats } = this.#state;
    if (sequence !== "closed" || isBlocked(this.#state)) {
      return false;
    }
    if (reset !== undefined || closing !== undefined) {
      return false;
    }
    return sequences > 0 || seats.size >= this.#settings.counts.min;
  }

  #open(): void {
    this.#state.sequence = "starting";
    this.#afterEnds(() => this.#start());
  }

  #start(): void {
    const state = this.#state;
    const { world, clock } = made(this.#play);
    const members = this.#members();
    const agents = members.map(({ agent }) => agent);
    const { values: settings, random, isReseeded } = this.#settings;
    const start = { settings, random, isReseeded, agents };
    this.#settings.isReseeded = false;
    const begun = (): void => {
      state.sequence = "open";
      state.sequences += 1;
      state.moves += 1;
      this.#outside.emit({ kind: "sequence-started" });
      for (const seat of members) {
        this.#admit(seat, seat.state.kind === "opening" ? seat.state.step : undefined);
      }
      clock.opened();
    };
    this.#outside.call("start", () => world.start?.(start), begun);
  }

  /**
   * Returns the agents with which a sequence begins, in the order of joining: agents with a first
   * step outstanding, and on a continuous clock also agents that were in an earlier sequence.
   */
  #members(): Seat[] {
    const playsOn = ({ state, takesPart }: Seat): boolean =>
      this.#isContinuous && takesPart && (state.kind === "idle" || state.kind === "ended");
    return [...this.#state.seats.values()].filter((seat) => isOpening(seat) || playsOn(seat));
  }

  /** @param step Undefined for an agent that does not know of the sequence yet. */
  #admit(seat: Seat, step: OutstandingStep | undefined): Running {
    const running: Running = {
      kind: "running",
      seat,
      agent: seat.agent,
      pending: step,
      lastActions: undefined,
      entered: step !== undefined,
      undelivered: seat.state.kind === "ended" ? seat.state : undefined,
      reward: new RewardSum(),
    };
    seat.takesPart = true;
    this.#become(seat, running);
    return running;
  }

  /** Handles a missed deadline for first steps (behaviour 37). */
  #openingOverdue(): void {
    const late = [...this.#state.seats.values()].filter((seat) => !isReady(seat));
    for (const seat of late) {
      this.#missed(seat);
      if (goesOn(this.#clock)) {
        this.#excuse(seat);
      }
    }
    // With `leave`, removing the last late agent has already begun the sequence.
    if (goesOn(this.#clock)) {
      this.#openIfReady();
    }
  }

  // ——— The clock ticks (behaviours 37, 63).

  /** Returns the decisions of the clock. */
  #clockDecisions(): ClockDecisions {
    return {
      nextTurn: (previous) => this.#nextTurn(previous),
      advance: (actions) => this.#advance(actions),
      answer: (running: Running) => this.#respond(running, RUNNING),
      missed: ({ seat }: Running) => this.#missed(seat),
      tickLate: (lateMs) => this.#tickLate(lateMs),
      ticksMissed: (count) => this.#ticksMissed(count),
      after: (delayMs, callback) => this.#outside.after(delayMs, () => this.#timeIsUp(callback)),
    };
  }

  /** Calls back the clock, which may remove agents that missed its deadline. */
  #timeIsUp(callback: () => void): void {
    if (this.#clock.onMissedDeadline === "leave") {
      this.#afterEnds(callback);
    } else {
      callback();
    }
  }

  #nextTurn(previous: AgentId | undefined): AgentId | undefined {
    const { world } = made(this.#play);
    const agents = [...this.#state.running.agents].map(({ agent }) => agent);
    return this.#outside.sync("turn", () => world.turn?.(agents, previous));
  }

  /** The tick that the clock has requested and that has not begun. */
  #nextTick: TickActions | undefined;
  /** The actions of the current tick. */
  #tickActions: TickActions = new Map();
  /** True while `#tick` or `#afterStep` runs: a tick that the clock then requests has to wait. */
  #isTicking = false;
  /** Agents that the last tick affected; undefined for all. */
  #affected: ReadonlySet<Running> | undefined;

  #advance(actions: TickActions): void {
    this.#nextTick = actions;
    if (!this.#isTicking) {
      this.#tick();
    }
  }

  /** Ticks until the clock requests no further tick, or the rest waits for the author's promise or a later turn. */
  #tick(): void {
    const { world, observing } = made(this.#play);
    this.#isTicking = true;
    while (this.#nextTick !== undefined) {
      if (!this.#areEndsSaved(this.#tickLater)) {
        break;
      }
      this.#tickActions = this.#nextTick;
      this.#nextTick = undefined;
      const asked = this.#tickActions;
      if (world.validate !== undefined && !this.#isStillAccepted()) {
        continue;
      }
      if (this.#clock.onMissedDeadline === "repeat-last") {
        this.#keepLastActions(asked);
      }
      if (observing.hasRewards) {
        this.#addRewards();
      }
      if (!this.#outside.call("step", this.#step, this.#stepped, this.#stepRefused)) {
        break;
      }
    }
    this.#isTicking = false;
  }

  readonly #tickLater = (): void => this.#tick();

  /** Returns an agent's place in the sequence; undefined if it is not in a sequence. */
  #runningOf(agent: AgentId): Running | undefined {
    const state = this.#state.seats.get(agent)?.state;
    return state?.kind === "running" ? state : undefined;
  }

  /**
   * Stores the actions of the steps in a tick as `lastActions`, which the policy `repeat-last`
   * repeats.
   */
  #keepLastActions(actions: TickActions): void {
    for (const agent of actions.keys()) {
      const running = this.#runningOf(agent);
      if (running?.pending?.first === false) {
        running.lastActions = running.pending.actions;
      }
    }
  }

  /**
   * Validates again the actions of a tick that were validated before the world last moved. Refused
   * actions that the clock repeats or holds in force are omitted from the tick; a refused step is
   * answered with the refusal.
   *
   * @returns False if the tick consisted of a single step and that step was refused; the tick is
   * skipped.
   */
  #isStillAccepted(): boolean {
    const state = this.#state;
    let accepted: Map<AgentId, ActionValues> | undefined;
    for (const [agent, actions] of this.#tickActions) {
      const pending = this.#runningOf(agent)?.pending;
      const step = pending?.first ? undefined : pending;
      // On a continuous clock, actions of earlier steps may be in force as well.
      if (step?.move === state.moves && !this.#isContinuous) {
        continue;
      }
      const refused = this.#validate(agent, actions);
      if (refused === undefined) {
        continue;
      }
      if (this.#tickActions.size === 1 && this.#refuseTick(agent, refused)) {
        return false;
      }
      accepted ??= new Map(this.#tickActions);
      accepted.delete(agent);
    }
    this.#tickActions = accepted ?? this.#tickActions;
    return true;
  }

  /**
   * Answers the only step of a tick with the world's refusal. Returns false if the clock does not
   * support refused ticks, or if the agent has no step outstanding because its actions are
   * repeated.
   */
  #refuseTick(agent: AgentId, refused: Error): boolean {
    const { clock } = made(this.#play);
    const running = this.#runningOf(agent);
    if (clock.refused === undefined || running?.pending === undefined || running.pending.first) {
      return false;
    }
    const { reply } = running.pending;
    running.pending = undefined;
    this.#state.waiting -= 1;
    reply(errorResponse(refused));
    clock.refused(running);
    return true;
  }

  readonly #step = (): Awaitable<void> =>
    made(this.#play).world.step(this.#tickActions as ReadonlyMap<AgentId, never>);

  readonly #stepped = (): void => this.#afterStep(() => this.#settleTick());

  /**
   * Handles an error of `step` that may be a refusal. Nothing has changed if the error is a
   * StepRefusal and one agent acts in the tick (behaviour 68). Refused actions that the clock
   * repeated for that agent are omitted, and the world ticks without them.
   */
  readonly #stepRefused = (error: Error): void => {
    this.#afterStep(() => {
      const [actor, another] = this.#tickActions.keys();
      const mayRefuse = isStepRefusal(error) && made(this.#play).clock.refused !== undefined;
      if (actor === undefined || another !== undefined || !mayRefuse) {
        throw new WorldFault("step", error);
      }
      if (!this.#refuseTick(actor, error)) {
        this.#nextTick = new Map();
      }
    });
  };

  /** Continues after the author's `step`, which may have returned a promise. */
  #afterStep(settle: () => void): void {
    if (this.#isTicking) {
      settle();
      return;
    }
    this.#isTicking = true;
    settle();
    this.#tick();
  }

  /**
   * Ends the sequence of each agent whose status is no longer `running`; the clock answers the
   * others.
   */
  #settleTick(): void {
    const state = this.#state;
    const { world, observing, clock } = made(this.#play);
    state.ticks += 1;
    this.#affected = this.#readAffected();
    if (observing.hasRewards || world.status !== undefined) {
      for (const running of this.#affected ?? state.running.agents) {
        running.reward.isDue = true;
        const status = this.#readStatus(running.agent);
        if (status !== "running") {
          this.#endFor(running, status === "terminated" ? TERMINATED : INTERRUPTED);
        }
      }
    }
    state.moves += 1;
    if (state.running.size === 0) {
      this.#close();
    } else {
      clock.advanced();
    }
  }

  /** Adds the rewards of the last tick to the sums that agents have not received. */
  #addRewards(): void {
    const { observing } = made(this.#play);
    for (const { agent, reward, seat } of this.#affected ?? this.#state.running.agents) {
      observing.addReward(agent, reward, seat.specs);
    }
  }

  #readAffected(): ReadonlySet<Running> | undefined {
    const { world } = made(this.#play);
    const read = world.affected?.bind(world);
    if (read === undefined) {
      return undefined;
    }
    const affected = new Set<Running>();
    for (const agent of this.#outside.sync("affected", read)) {
      const running = this.#runningOf(agent);
      if (running !== undefined) {
        affected.add(running);
      }
    }
    return affected;
  }

  #readStatus(agent: AgentId): SequenceState {
    try {
      return atOnce(made(this.#play).world.status?.(agent)) ?? "running";
    } catch (error) {
      throw new WorldFault("status", error);
    }
  }

  #respond(running: Running, state: EnvironmentStateType): void {
    const step = running.pending;
    if (step === undefined) {
      throw new Error(`agent ${running.agent} has no step to answer`);
    }
    if (this.#mustWait()) {
      running.pending = undefined;
      this.#state.waiting -= 1;
      this.#late.push({ of: running, step, state });
      return;
    }
    const observations = this.#observe(running, step);
    running.pending = undefined;
    this.#state.waiting -= 1;
    step.reply({ case: "step", value: { state, observations } });
  }

  /**
   * Answers that wait, in order. No other transition runs until they are sent, and the world does not change before
   * (`#areEndsSaved`).
   */
  readonly #late = new Queue<LateAnswer>();

  /**
   * Returns true if an answer must wait, because earlier ones wait or have taken the time of this turn. One tick may
   * cause hundreds of answers, which would stop all other worlds and streams.
   */
  #mustWait(): boolean {
    if (this.#late.size > 0) {
      return true;
    }
    if (this.#state.seats.size < manyAgents || !this.#outside.isTurnOver()) {
      return false;
    }
    this.#outside.inLaterTurns(() => {
      do {
        this.#sendLate();
      } while (this.#late.size > 0 && !this.#outside.isTurnOver());
      return this.#late.size === 0;
    });
    return true;
  }

  /** Sends the first answer that waits, if any. If the observation fails, `#end` answers the step. */
  #sendLate(): void {
    const { first } = this.#late;
    if (first !== undefined) {
      const { of, step, state } = first;
      const observations = this.#observe(of, step);
      this.#late.shift();
      step.reply({ case: "step", value: { state, observations } });
    }
  }

  #observe({ seat, reward }: Running | Ended, step: OutstandingStep): readonly UidTensor[] {
    return made(this.#play).observing.observe(seat.agent, reward, step.requested);
  }

  // ——— A sequence ends, for one agent or for all (behaviours 5, 61).

  /** Delivers the end of its sequence to an agent, now or at its next step. */
  #endFor(running: Running, state: EnvironmentStateType): void {
    const { seat, pending, reward } = running;
    if (!running.entered) {
      this.#become(seat, running.undelivered ?? idle);
      return;
    }
    if (pending !== undefined && !pending.first && this.#mustWait()) {
      made(this.#play).observing.addReward(seat.agent, reward, seat.specs);
      this.#countReturn(reward);
      this.#become(seat, idle);
      this.#late.push({ of: running, step: pending, state });
      return;
    }
    if (pending !== undefined && !pending.first) {
      const observations = this.#observe(running, pending);
      this.#countReturn(reward);
      this.#become(seat, idle);
      pending.reply({ case: "step", value: { state, observations } });
      return;
    }
    if (pending !== undefined) {
      this.#respond(running, RUNNING);
    }
    made(this.#play).observing.addReward(seat.agent, reward, seat.specs);
    this.#countReturn(reward);
    this.#become(seat, { kind: "ended", seat, state, reward, saved: undefined, excused: false });
  }

  #countReturn({ total }: RewardSum): void {
    this.#state.returns += 1;
    this.#state.returnSum += total;
  }

  /** Answers a step with an undelivered end. */
  #deliverEnd(ended: Ended, step: OutstandingStep): void {
    const { seat, state, saved } = ended;
    let observations: readonly UidTensor[] | DmEnvRpcError;
    try {
      observations =
        saved === undefined
          ? this.#observe(ended, step)
          : this.#savedEnds.read(saved, step.requested);
    } catch (error) {
      this.#failRequest(error, step.reply);
      return;
    }
    if (seat.state.kind === "running") {
      this.#discardUndelivered(seat.state);
    } else {
      this.#startAnew(seat);
    }
    step.reply(
      isDmEnvRpcError(observations)
        ? errorResponse(observations)
        : { case: "step", value: { state, observations } },
    );
    this.#finishResetIfDelivered();
  }

  #discardUndelivered(running: Running): void {
    this.#dropSaved(running.undelivered);
    running.undelivered = undefined;
  }

  #dropSaved(ended: Ended | undefined): void {
    if (ended?.saved !== undefined) {
      this.#savedEnds.drop(ended.saved);
    }
  }

  /** True while `stepAll` processes its steps. They are one transition, of which no part may wait for a later turn. */
  #isSteppingAll = false;

  /**
   * Continues a transition that changes the world once the undelivered ends are saved.
   *
   * @param refuse Called instead of `goOn` if the world is gone by then, for a request that is not stored in a seat.
   */
  #afterEnds(goOn: () => void, refuse: () => void = () => {}): void {
    try {
      if (!this.#areEndsSaved(goOn, refuse)) {
        return;
      }
    } catch (error) {
      this.fail(error);
      refuse();
      throw error;
    }
    goOn();
  }

  /**
   * Sends the answers that wait, and saves the observations of undelivered ends, before the world changes. If answers
   * wait or there are many ends, this may take several turns of the event loop.
   *
   * @returns True if all is done. Otherwise `goOn` continues the transition in a later turn.
   */
  #areEndsSaved(goOn: () => void, refuse: () => void = () => {}): boolean {
    const { unsaved } = this.#state;
    const hasLate = this.#late.size > 0;
    if (unsaved.size === 0 && !hasLate) {
      return true;
    }
    const isShort = unsaved.size < manyAgents && !hasLate;
    if (isShort || this.#isSteppingAll) {
      this.#saveEnds();
      return true;
    }
    if (this.#saveUntilTurnIsOver()) {
      return true;
    }
    this.#outside.inLaterTurns(() => {
      if (this.#state.gone !== undefined) {
        refuse();
        return true;
      }
      let isDone: boolean;
      try {
        isDone = this.#saveUntilTurnIsOver();
      } catch (error) {
        this.fail(error);
        refuse();
        throw error;
      }
      if (isDone) {
        goOn();
      }
      return isDone;
    });
    return false;
  }

  /** Sends answers and saves ends until this turn is over. Returns true if none is left. */
  #saveUntilTurnIsOver(): boolean {
    const { unsaved } = this.#state;
    let isOver = false;
    while (this.#late.size > 0 && !isOver) {
      this.#sendLate();
      isOver = this.#outside.isTurnOver();
    }
    for (const ended of unsaved) {
      if (isOver) {
        break;
      }
      this.#save(ended);
      isOver = this.#outside.isTurnOver();
    }
    return this.#late.size + unsaved.size === 0;
  }

  /**
   * Does at once what `#areEndsSaved` may do in several turns. The transitions that call it run after `#afterEnds`, so
   * that little is left: the ends of a sequence that an earlier part of the same transition has interrupted.
   */
  #saveEnds(): void {
    while (this.#late.size > 0) {
      this.#sendLate();
    }
    const { unsaved } = this.#state;
    if (unsaved.size === 0) {
      return;
    }
    for (const ended of unsaved) {
      this.#save(ended);
    }
  }

  #save(ended: Ended): void {
    const { seat, reward } = ended;
    const { observing } = made(this.#play);
    ended.saved = this.#savedEnds.save(seat, (entries) =>
      observing.observe(seat.agent, reward, entries),
    );
    this.#state.unsaved.delete(ended);
  }

  /**
   * Ends the sequence of every agent with INTERRUPTED; an unanswered first step waits for the next
   * sequence.
   */
  #interrupt(): void {
    for (const running of this.#state.running.agents) {
      const { seat, pending } = running;
      if (pending?.first) {
        this.#become(seat, { kind: "opening", step: pending });
      } else {
        this.#endFor(running, INTERRUPTED);
      }
    }
    this.#close();
  }

  /** Closes the sequence, in which no agent is RUNNING any more. */
  #close(): void {
    const state = this.#state;
    if (state.sequence !== "open") {
      return;
    }
    state.sequence = "closed";
    state.moves += 1;
    made(this.#play).clock.closed();
    for (const seat of state.seats.values()) {
      if (seat.state.kind === "resetting") {
        this.#answerReset(seat, seat.state);
      }
    }
    this.#openIfReady();
  }

  /** Ends, continues or begins a sequence after the set of agents changed. */
  #changed(): void {
    const { sequence, running } = this.#state;
    if (sequence !== "open") {
      this.#openIfReady();
    } else if (running.size === 0) {
      this.#close();
    } else {
      made(this.#play).clock.changed();
    }
  }

  // ——— An agent is reset (behaviours 38–40).

  reset(seat: Seat, settings: PackedSettings, reply: Reply): void {
    const refusal = this.#resetRefusal(seat.state);
    if (refusal !== undefined) {
      reply(errorResponse(refusal));
      return;
    }
    const { state } = seat;
    const goOn = (): void => this.#resetSeat(seat, settings, reply);
    if (settings.size > 0 || (state.kind === "running" && state.entered)) {
      this.#afterEnds(goOn, () => reply(errorResponse(this.#state.gone)));
    } else {
      goOn();
    }
  }

  #resetSeat(seat: Seat, settings: PackedSettings, reply: Reply): void {
    let specs: SeatSpecs;
    try {
      specs = this.#changeSettings(seat, settings);
    } catch (error) {
      if (isRefusal(error)) {
        reply(errorResponse(error));
      } else {
        this.#failRequest(error, reply);
      }
      return;
    }
    const resetting: Resetting = { kind: "resetting", reply, specs };
    if (seat.state.kind !== "running" || !seat.state.entered) {
      if (seat.state.kind === "running") {
        this.#discardUndelivered(seat.state);
      } else {
        this.#startAnew(seat);
      }
      this.#answerReset(seat, resetting);
      this.#finishResetIfDelivered();
      return;
    }
    this.#become(seat, resetting);
    if (this.#definition.onReset !== "wait") {
      const { world } = made(this.#play);
      this.#saveEnds();
      this.#outside.sync("exit", () => world.exit?.(seat.agent));
      this.#answerReset(seat, resetting);
    }
    this.#changed();
  }

  #resetRefusal(state: SeatState): DmEnvRpcError | undefined {
    if (state.kind === "gone") {
      return state.reason ?? leftAlready();
    }
    return outstandingReply(state) === undefined ? undefined : alreadyOutstanding();
  }

  /**
   * Applies the settings of a reset, if any.
   *
   * @returns The specs that apply afterwards.
   * @throws DmEnvRpcError, TensorError if the settings are refused.
   */
  #changeSettings(seat: Seat, settings: PackedSettings): SeatSpecs {
    const values = readSettings(this.#definition.resetSettings ?? {}, settings, "reset", true);
    if (settings.size === 0) {
      return seat.specs;
    }
    const { world } = made(this.#play);
    const merged = { ...seat.settings, ...values };
    const specs = this.#specsFor(merged);
    this.#saveEnds();
    const refused = this.#outside.refusal("reset", () => world.reset?.(seat.agent, values));
    if (refused !== undefined) {
      throw refused;
    }
    seat.settings = merged;
    if (this.#definition.perAgent === true) {
      this.#settings.reseed(values);
    }
    return specs;
  }

  #answerReset(seat: Seat, { reply, specs }: Resetting): void {
    seat.specs = specs;
    if (seat.state.kind === "resetting") {
      this.#become(seat, idle);
    }
    reply({ case: "reset", value: create(ResetResponseSchema, { specs: specs.message }) });
  }

  // ——— The world is reset (behaviours 41–44).

  /**
   * @param callers The seats of the caller, if it has joined this world. If the caller has several
   * seats, some may have steps outstanding: first steps wait for the next sequence, other steps are
   * answered with INTERRUPTED.
   */
  resetWorld(callers: readonly Seat[], settings: PackedSettings, done: Done<undefined>): void {
    this.#request(done, (finish) => {
      const specs = this.#definition.resetWorldSettings ?? {};
      const values = readSettings(specs, settings, "reset world", true);
      for (const caller of callers) {
        // A caller that has left the world meanwhile is treated as one that has not joined it.
        if (caller.state.kind !== "gone" && outstandingReply(caller.state) === undefined) {
          this.#startAnew(caller);
        }
      }
      const reset = this.#state.reset ?? this.#beginReset();
      reset.settings = { ...reset.settings, ...values };
      reset.callers.push(finish);
      this.#finishResetIfDelivered();
      // While the reset is in progress, first steps wait, and agents that have not sent one are not
      // late.
      this.#openIfReady();
    });
  }

  #beginReset(): WorldReset {
    const state = this.#state;
    const { resetDeadlineMs = 10_000 } = this.#definition;
    const awaited = new Set<Ended>();
    const reset: WorldReset = { settings: {}, callers: [], awaited, cancelDeadline() {} };
    state.reset = reset;
    this.#interrupt();
    for (const { state: of } of state.seats.values()) {
      if (of.kind === "ended" && !of.excused) {
        awaited.add(of);
      }
    }
    reset.cancelDeadline = this.#outside.after(resetDeadlineMs, () => this.#finishReset(reset));
    return reset;
  }

  #finishResetIfDelivered(): void {
    const { reset } = this.#state;
    if (reset?.awaited.size === 0) {
      this.#finishReset(reset);
    }
  }

  /**
   * Resets the world; agents that have not stepped by the deadline receive INTERRUPTED at their
   * next step.
   */
  #finishReset(reset: WorldReset): void {
    reset.cancelDeadline();
    for (const { seat } of reset.awaited) {
      this.#excuse(seat);
    }
    this.#state.reset = undefined;
    this.#settings.change(reset.settings);
    for (const done of reset.callers) {
      done(undefined);
    }
    this.#openIfReady();
  }

  // ——— Deadlines (behaviour 37).

  /** Counts a missed deadline, once for each move that waits for the agent's step. */
  #missed(seat: Seat): void {
    const state = this.#state;
    if (seat.missedMove === state.moves) {
      return;
    }
    seat.missedMove = state.moves;
    state.missedDeadlines += 1;
    this.#outside.emit({ kind: "deadline-missed", agent: seat.agent });
    const { deadlineMs, onMissedDeadline } = this.#clock;
    if (onMissedDeadline === "leave") {
      // The removed agent is never the last in the world, because another agent waits for its step.
      this.#remove(seat, tooSlow(deadlineMs));
    }
  }

  #tickLate(lateMs: number): void {
    this.#state.tickLagMs += Math.max(0, lateMs);
  }

  #ticksMissed(count: number): void {
    this.#state.missedTicks += count;
    this.#outside.emit({ kind: "ticks-missed", count });
  }

  // ——— The world is drained, destroyed or fails (behaviours 24, 30).

  /** Refuses further joins and first steps, and cuts the current sequence short. */
  drain(reason: DmEnvRpcError, done: Done<undefined>): void {
    this.#request(done, (finish) => {
      const { seats } = this.#state;
      this.#state.closing = reason;
      this.#interrupt();
      const goOn = (): void => this.#closeSeats(reason, finish);
      // A drain changes the author's world only if it removes an agent.
      if ([...seats.values()].some(({ held }) => held !== undefined)) {
        this.#afterEnds(goOn);
      } else {
        goOn();
      }
    });
  }

  /** Closes every seat, in several turns of the event loop if there are many. */
  #closeSeats(reason: DmEnvRpcError, finish: Done<undefined>): void {
    const state = this.#state;
    const seats = [...state.seats.values()].reverse();
    const isLong = seats.length >= manyAgents;
    const closeSeats = (): boolean => {
      if (state.gone !== undefined) {
        return true;
      }
      for (let seat = seats.pop(); seat !== undefined; seat = seats.pop()) {
        if (this.#closeSeat(seat, reason) && isLong && this.#outside.isTurnOver()) {
          return false;
        }
      }
      this.#changed();
      finish(undefined);
      return true;
    };
    if (!closeSeats()) {
      this.#outside.inLaterTurns(closeSeats);
    }
  }

  /** Refuses an outstanding first step, or removes an agent whose seat is held; returns false if there is neither. */
  #closeSeat(seat: Seat, reason: DmEnvRpcError): boolean {
    if (seat.state.kind === "opening") {
      this.#refuseFirstStep(seat, seat.state.step, reason);
      return true;
    }
    if (seat.held !== undefined) {
      this.#remove(seat, undefined);
      return true;
    }
    return false;
  }

  /** Destroys the world according to its policy for joined agents. */
  destroy(done: Done<undefined>): void {
    this.#request(done, (finish) => {
      const { seats } = this.#state;
      const isNow = mayDestroyNow(this.#name, this.#definition, seats.size);
      const { drainDeadlineMs = 30_000 } = this.#definition;
      const draining = this.#startDraining();
      draining.callers.push(finish);
      if (isNow) {
        this.destroyNow();
      } else {
        draining.cancelDeadline ??= this.#outside.after(drainDeadlineMs, () => this.destroyNow());
      }
    });
  }

  /** Refuses further joins, and destroys the world when the last agent leaves. */
  destroyWhenEmpty(): void {
    this.#startDraining();
    this.#destroyIfDrained();
  }

  destroyIfEmpty(): void {
    if (this.#state.seats.size === 0) {
      this.destroyNow();
    }
  }

  #startDraining(): NonNullable<WorldState["draining"]> {
    this.#state.draining ??= { callers: [], cancelDeadline: undefined };
    return this.#state.draining;
  }

  #destroyIfDrained(): void {
    if (this.#state.draining !== undefined) {
      this.destroyIfEmpty();
    }
  }

  /** Destroys the world, with or without agents, even while an author call is pending. */
  destroyNow(): void {
    if (this.#state.gone !== undefined) {
      return;
    }
    this.#author.destroy();
    this.#end(destroyedWorld(this.#name), "destroyed");
  }

  /** Ends the world because of a fault in the author's code or in this package. */
  fail(fault: unknown): void {
    if (this.#state.gone !== undefined) {
      return;
    }
    const error = worldFailure(this.#name, this.#author.destroyAfter(fault));
    this.#outside.emit({ kind: "failed", error });
    this.#end(error, "failed");
  }

  /** Ends the world because of a fault, and answers a request that is not stored in a seat. */
  #failRequest(fault: unknown, reply: Reply): void {
    this.fail(fault);
    reply(errorResponse(this.#state.gone));
  }

  /**
   * Removes every agent and answers every request. Callers that requested the end are answered
   * last.
   */
  #end(reason: DmEnvRpcError, end: WorldEnd): void {
    const state = this.#state;
    if (state.gone !== undefined) {
      return;
    }
    state.gone = reason;
    state.draining?.cancelDeadline?.();
    state.reset?.cancelDeadline();
    this.#openingDeadline.disarm();
    this.#nextTick = undefined;
    if (state.sequence === "open") {
      this.#play?.clock.closed();
    }
    state.sequence = "closed";
    const seats = [...state.seats.values()];
    state.seats.clear();
    for (const seat of seats) {
      this.#release(seat);
      this.#left(seat, reason);
    }
    this.#outside.emit({ kind: "gone", end });
    for (let late = this.#late.shift(); late !== undefined; late = this.#late.shift()) {
      late.step.reply(errorResponse(reason));
    }
    for (const seat of seats) {
      this.#dismiss(seat, reason);
    }
    const destroyers = end === "destroyed" ? (state.draining?.callers ?? []) : [];
    const last = new Set<Done<never>>(destroyers);
    const others = [...state.unanswered].filter((done) => !last.has(done));
    for (const done of others) {
      done(reason);
    }
    for (const done of destroyers) {
      done(undefined);
    }
    this.#outside.stop();
  }

  // ——— Seats and counters.

  /**
   * Takes an agent out of its sequence and discards any undelivered end: its next step is a first
   * step.
   */
  #startAnew(seat: Seat): void {
    const { state } = seat;
    if (state.kind === "ended" && state.excused) {
      this.#become(seat, excusedIdle);
    } else if (state.kind === "ended" || state.kind === "running") {
      this.#become(seat, idle);
    }
  }

  /**
   * Marks an agent without an outstanding first step, so that the next sequence does not wait for
   * it.
   */
  #excuse(seat: Seat): void {
    const { state } = seat;
    if (state.kind === "idle") {
      this.#become(seat, excusedIdle);
    } else if (state.kind === "ended" && !state.excused) {
      state.excused = true;
      this.#state.excused += 1;
    }
  }

  /** Changes the state of a seat, and the counters with it. */
  #become(seat: Seat, next: SeatState): void {
    const last = seat.state;
    seat.state = next;
    this.#unlist(last);
    this.#list(next);
    const end = undeliveredEnd(last);
    if (end !== undeliveredEnd(next)) {
      this.#dropSaved(end);
    }
  }

  #unlist(last: SeatState): void {
    const state = this.#state;
    switch (last.kind) {
      case "idle":
        if (last.excused) {
          state.excused -= 1;
        }
        return;
      case "opening":
        state.opening -= 1;
        return;
      case "running":
        state.running.delete(last);
        if (last.pending !== undefined) {
          state.waiting -= 1;
        }
        last.pending = undefined;
        last.reward.isDue = false;
        return;
      case "ended":
        state.unsaved.delete(last);
        state.reset?.awaited.delete(last);
        if (last.excused) {
          state.excused -= 1;
        }
    }
  }

  #list(next: SeatState): void {
    const state = this.#state;
    switch (next.kind) {
      case "idle":
        if (next.excused) {
          state.excused += 1;
        }
        return;
      case "opening":
        state.opening += 1;
        return;
      case "running":
        state.running.add(next);
        if (next.pending !== undefined) {
          state.waiting += 1;
        }
        return;
      case "ended":
        if (next.saved === undefined) {
          state.unsaved.add(next);
        }
        if (next.excused) {
          state.excused += 1;
        }
    }
  }
}

/**
 * Returns the author's side. The turnstile runs no transition that needs it before `create` has
 * finished.
 */
function made(play: Play | undefined): Play {
  if (play === undefined) {
    throw new Error("the world has not been made yet");
  }
  return play;
}

function undeliveredEnd(state: SeatState): Ended | undefined {
  if (state.kind === "running") {
    return state.undelivered;
  }
  return state.kind === "ended" ? state : undefined;
}

/** True if the next step of a seat is the first of a sequence, or delivers an end. */
function isFirst(state: SeatState): boolean {
  return state.kind !== "running" || !state.entered;
}

function isOpening({ state }: Seat): boolean {
  return state.kind === "opening";
}

/** True if the next sequence need not wait for the agent. */
function isReady({ state }: Seat): boolean {
  switch (state.kind) {
    case "opening":
      return true;
    case "idle":
    case "ended":
      return state.excused;
    default:
      return false;
  }
}

function outstandingReply(state: SeatState): Reply | undefined {
  switch (state.kind) {
    case "opening":
      return state.step.reply;
    case "running":
      return state.pending?.reply;
    case "resetting":
      return state.reply;
    default:
      return undefined;
  }
}

function tooSlow(deadlineMs: number | undefined): DmEnvRpcError {
  return new DmEnvRpcError(
    "DEADLINE_EXCEEDED",
    `this agent did not step within ${deadlineMs} ms and was removed from the world; join again`,
  );
}

function drainingWorld(name: string): DmEnvRpcError {
  return new DmEnvRpcError(
    "FAILED_PRECONDITION",
    `the world "${name}" is being destroyed and accepts no more agents; join another`,
  );
}

function alreadyOutstanding(): DmEnvRpcError {
  return new DmEnvRpcError(
    "FAILED_PRECONDITION",
    "this agent has a step or a reset outstanding; wait for its answer",
  );
}

function leftWhileWaiting(): DmEnvRpcError {
  return new DmEnvRpcError(
    "CANCELLED",
    "this agent left while its request waited for other agents; the request had no effect",
  );
}

function lostStream(): DmEnvRpcError {
  return new DmEnvRpcError(
    "CANCELLED",
    "the stream of this agent was lost while its request was outstanding; the request had no effect",
  );
}

function takenAgain(): DmEnvRpcError {
  return new DmEnvRpcError(
    "ABORTED",
    "another connection has resumed this agent's seat with the same join token or seat_key; continue there, or join as another agent",
  );
}

function leftAlready(): DmEnvRpcError {
  return new DmEnvRpcError("FAILED_PRECONDITION", "this agent has left its world; join again");
}
