// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { EnvironmentStateType, ResetResponseSchema } from "@dm-env-rpc/protocol";
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import type { AgentId } from "./agent.ts";
import type { ClockDriver, SequenceControl, TickActions } from "./clocks/clock.ts";
import { lockstep } from "./clocks/lockstep.ts";
import { type ObservationChecks, Observing } from "./observing.ts";
import { Opening } from "./opening.ts";
import { OwedEnds } from "./owed-ends.ts";
import { errorResponse } from "./responses.ts";
import { RunningAgents } from "./running-agents.ts";
import type { OwedEnd, PendingStep, Seat } from "./seat.ts";
import { Ticks } from "./ticks.ts";
import type { UntypedWorld, UntypedWorldDefinition } from "./world.ts";
import type { WorldCalls } from "./world-calls.ts";

const { RUNNING, TERMINATED, INTERRUPTED } = EnvironmentStateType;

/** What a sequence needs of the world that it belongs to. */
export interface SequenceHost {
  readonly definition: UntypedWorldDefinition;
  readonly world: UntypedWorld;
  readonly calls: WorldCalls;
  /** Every joined agent, in the order of joining. */
  readonly seats: ReadonlySet<Seat>;
  readonly minAgents: number;
  readonly checkObservations: ObservationChecks;
  /** Whether sequences must not begin now. */
  readonly barrierActive: boolean;
  /** Calls the author's `start`, with the settings as they are now. */
  startWorld(agents: readonly AgentId[], then: () => void): void;
  evict(seat: Seat, reason: DmEnvRpcError): void;
  /** An agent has been told that its sequence is over. */
  told(seat: Seat): void;
  sequenceStarted(): void;
  /** An agent did not step before the deadline. */
  deadlineMissed(seat: Seat): void;
}

/**
 * The sequences of one world: how they begin, who is RUNNING and how they end
 * (behaviours 38 and 60–63). A clock says when the world advances within one.
 */
export class Sequence implements SequenceControl {
  waiting = 0;
  open = false;
  everOpened = false;
  /** Agents that left and that another has to join for. */
  vacancies = 0;
  missedDeadlines = 0;
  sequences = 0;
  /** How the next one begins. */
  readonly opening: Opening;
  readonly #host: SequenceHost;
  readonly #running = new RunningAgents();
  readonly #observing: Observing;
  readonly #owed: OwedEnds;
  readonly #ticks: Ticks;
  readonly #driver: ClockDriver;
  /** How often what agents wait for has come: a beginning, a tick, or an end. */
  #moves = 0;
  /** Whether the author's `start` has been called and has not come back. */
  #starting = false;

  constructor(host: SequenceHost) {
    const { definition, world, calls } = host;
    const clock = definition.clock ?? lockstep();
    this.#host = host;
    this.#observing = new Observing(world.observe, host.checkObservations);
    this.#owed = new OwedEnds(this.#observing);
    this.#ticks = new Ticks({
      world,
      calls,
      running: this.#running,
      observing: this.#observing,
      movingOn: () => this.#owed.save(),
      ended: (seat, state) => this.#end(seat, state === "terminated" ? TERMINATED : INTERRUPTED),
      advanced: () => this.#advanced(),
    });
    this.opening = new Opening(
      {
        seats: host.seats,
        mayOpen: () => this.#mayOpen(),
        after: (delayMs, operation) => this.after(delayMs, operation),
        missed: (seat) => this.missed(seat),
        begin: (seats) => this.#begin(seats),
      },
      clock,
    );
    this.#driver = clock.start(this);
  }

  get running(): ReadonlySet<Seat> {
    return this.#running.seats;
  }

  get blocked(): boolean {
    return this.vacancies > 0;
  }

  get ticks(): number {
    return this.#ticks.count;
  }

  after(delayMs: number, callback: () => void): () => void {
    return this.#host.calls.after(delayMs, callback);
  }

  rest(callback: () => void): () => void {
    return this.#host.calls.rest(callback);
  }

  now(): number {
    return this.#host.calls.now();
  }

  checkObservers(seat: Seat): void {
    this.#observing.check(seat);
  }

  // ——— steps

  /** A step came; it has been checked. */
  arrive(seat: Seat, pending: PendingStep): void {
    seat.pending = pending;
    seat.missedMove = undefined;
    switch (seat.phase) {
      case "running":
        this.waiting += 1;
        this.#driver.stepped(seat);
        return;
      case "owed":
        this.#answerOwed(seat, pending);
        return;
      default:
        this.opening.arrive(seat);
        if (this.open && (this.#host.definition.lateEntry ?? "now") === "now") this.#enter(seat);
        else this.opening.check();
    }
  }

  #answerOwed(seat: Seat, pending: PendingStep): void {
    const owed = seat.owed as OwedEnd;
    const observations = this.#owed.observations(owed, seat, pending);
    this.#owed.settle(seat);
    seat.pending = undefined;
    pending.reply({ case: "step", value: { state: owed.state, observations } });
    this.#host.told(seat);
  }

  #respond(seat: Seat, state: EnvironmentStateType): void {
    const pending = seat.pending as PendingStep;
    const observations = this.#observing.observe(seat, pending.requested);
    seat.pending = undefined;
    if (seat.phase === "running") this.waiting -= 1;
    pending.reply({ case: "step", value: { state, observations } });
  }

  /** Refuses a first step that waits for its answer. */
  refuse(seat: Seat, reason: Error): void {
    const reply = seat.pending?.reply;
    seat.pending = undefined;
    seat.phase = "idle";
    this.opening.withdraw(seat);
    reply?.(errorResponse(reason));
  }

  // ——— beginnings

  #mayOpen(): boolean {
    if (this.open || this.#starting || this.blocked || this.#host.barrierActive) return false;
    return this.everOpened || this.#host.seats.size >= this.#host.minAgents;
  }

  #begin(seats: readonly Seat[]): void {
    this.saveOwed();
    const agents = seats.map((seat) => seat.agent);
    this.#starting = true;
    this.#host.startWorld(agents, () => {
      this.#starting = false;
      this.open = true;
      this.everOpened = true;
      this.#moves += 1;
      this.sequences += 1;
      this.#host.sequenceStarted();
      for (const seat of seats) this.#admit(seat);
      this.#driver.opened();
    });
  }

  #admit(seat: Seat): void {
    this.opening.withdraw(seat);
    seat.phase = "running";
    seat.reward.clear();
    seat.lastActions = undefined;
    this.#running.add(seat);
    this.waiting += 1;
  }

  #enter(seat: Seat): void {
    this.saveOwed();
    const refused = this.#host.calls.refusal("enter", () => this.#host.world.enter?.(seat.agent));
    if (refused !== undefined) {
      this.refuse(seat, refused);
      return;
    }
    this.#admit(seat);
    this.#driver.entered(seat);
  }

  // ——— for the clock

  nextTurn(previous: AgentId | undefined): AgentId | undefined {
    const agents = [...this.running].map((seat) => seat.agent);
    return this.#host.calls.sync("turn", () => this.#host.world.turn?.(agents, previous));
  }

  answer(seat: Seat): void {
    this.#respond(seat, RUNNING);
  }

  missed(seat: Seat): void {
    if (seat.missedMove === this.#moves) return;
    seat.missedMove = this.#moves;
    this.missedDeadlines += 1;
    this.#host.deadlineMissed(seat);
    if (this.#host.definition.clock?.onMissedDeadline === "leave") {
      this.#host.evict(
        seat,
        new DmEnvRpcError(
          "DEADLINE_EXCEEDED",
          `this agent did not step within ${this.#host.definition.clock.deadlineMs} ms and was taken out of the world; join again`,
        ),
      );
    }
  }

  advance(actions: TickActions): void {
    this.#ticks.advance(actions);
  }

  #advanced(): void {
    this.#moves += 1;
    if (this.#running.size === 0) this.close();
    else this.#driver.advanced();
  }

  // ——— endings

  /** Tells an agent that its sequence is over, now or at its next step. */
  #end(seat: Seat, state: EnvironmentStateType): void {
    if (seat.pending !== undefined && !seat.pending.first) {
      this.#respond(seat, state);
      seat.phase = "idle";
    } else {
      if (seat.pending !== undefined) this.#respond(seat, RUNNING);
      this.#owed.owe(seat, state);
    }
    this.#running.delete(seat);
  }

  /** Cuts the sequence short for every agent in it; one that was not told RUNNING yet waits on, for the next. */
  interrupt(): void {
    for (const seat of this.running) {
      if (seat.pending?.first) {
        this.take(seat);
        this.opening.arrive(seat);
      } else {
        this.#end(seat, INTERRUPTED);
      }
    }
    this.close();
  }

  /** The sequence is over: nobody is RUNNING in it. */
  close(): void {
    if (!this.open) return;
    this.open = false;
    this.#moves += 1;
    this.#driver.closed();
    for (const seat of this.#host.seats) this.#finishReset(seat);
    this.opening.check();
  }

  /** Keeps what agents are owed, before the world moves on from it. */
  saveOwed(): void {
    this.#owed.save();
  }

  /** Takes an agent out of the sequence; `changed` must follow. */
  take(seat: Seat): void {
    if (this.#running.delete(seat) && seat.pending !== undefined) this.waiting -= 1;
    this.opening.withdraw(seat);
    this.#owed.settle(seat);
  }

  /** An agent is gone from the world; `changed` must follow. */
  leave(seat: Seat): void {
    this.take(seat);
    this.opening.forget(seat);
  }

  /** The set of agents changed: ends, goes on with or begins a sequence. */
  changed(): void {
    if (!this.open) this.opening.check();
    else if (this.#running.size === 0) this.close();
    else this.#driver.changed();
  }

  /** Ends every wait, because the world is gone. */
  stop(): void {
    this.#ticks.stop();
    this.opening.disarm();
    if (this.open) this.#driver.closed();
    this.open = false;
  }

  // ——— resets of one agent

  /** Resets an agent whose settings have been taken over. */
  reset(seat: Seat, specs: Seat["specs"], reply: PendingStep["reply"]): void {
    if (seat.phase !== "running") {
      if (seat.phase === "owed") this.#owed.settle(seat);
      seat.resetting = { reply, specs };
      this.#finishReset(seat);
      this.#host.told(seat);
      return;
    }
    const wait = this.#host.definition.onReset === "wait";
    this.take(seat);
    seat.phase = "resetting";
    seat.resetting = { reply, specs };
    if (!wait) {
      this.saveOwed();
      this.#host.calls.sync("exit", () => this.#host.world.exit?.(seat.agent));
      this.#finishReset(seat);
    }
    this.changed();
  }

  #finishReset(seat: Seat): void {
    const { resetting } = seat;
    if (resetting === undefined) return;
    seat.resetting = undefined;
    seat.specs = resetting.specs;
    seat.phase = "idle";
    resetting.reply({
      case: "reset",
      value: create(ResetResponseSchema, { specs: resetting.specs.message }),
    });
  }
}
