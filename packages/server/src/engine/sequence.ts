// SPDX-License-Identifier: Apache-2.0
import { EnvironmentStateType } from "@dm-env-rpc/protocol";
import type { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import type { ClockDriver, SequenceControl, TickActions } from "../clocks/clock.ts";
import { lockstep } from "../clocks/lockstep.ts";
import type { AgentId } from "../definition/agent.ts";
import type { UntypedWorld, UntypedWorldDefinition } from "../definition/world.ts";
import { MissedDeadlines } from "./missed-deadlines.ts";
import { type ObservationChecks, Observing } from "./observing.ts";
import { Opening } from "./opening.ts";
import { OwedEnds } from "./owed-ends.ts";
import type { ResetBarrier } from "./reset-barrier.ts";
import { errorResponse } from "./responses.ts";
import { RunningAgents } from "./running-agents.ts";
import type { OwedEnd, PendingStep, Seat } from "./seat.ts";
import { answerReset } from "./seat-resets.ts";
import { Ticks } from "./ticks.ts";
import type { WorldCalls } from "./world-calls.ts";
import type { WorldObserver } from "./world-observer.ts";
import type { WorldSettings } from "./world-settings.ts";

const { RUNNING, TERMINATED, INTERRUPTED } = EnvironmentStateType;

/** What a sequence needs of the world that it belongs to. */
export interface SequenceHost {
  readonly definition: UntypedWorldDefinition;
  readonly world: UntypedWorld;
  readonly calls: WorldCalls;
  readonly settings: WorldSettings;
  readonly observer: WorldObserver;
  /** Every joined agent, in the order of joining. */
  readonly seats: ReadonlySet<Seat>;
  readonly checkObservations: ObservationChecks;
  /** Whether sequences must not begin now. */
  readonly barrierActive: boolean;
  readonly barrier: ResetBarrier;
  evict(seat: Seat, reason: DmEnvRpcError): void;
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
  sequences = 0;
  /** How the next one begins. */
  readonly opening: Opening;
  readonly #host: SequenceHost;
  readonly #running = new RunningAgents();
  readonly observing: Observing;
  /** What agents must still be told. */
  readonly owed: OwedEnds;
  readonly #ticks: Ticks;
  readonly #missed: MissedDeadlines;
  readonly #driver: ClockDriver;
  /** Whether the author's `start` has been called and has not come back. */
  #starting = false;

  constructor(host: SequenceHost) {
    const { definition, world, calls } = host;
    const clock = definition.clock ?? lockstep();
    this.#host = host;
    this.observing = new Observing(world.observe, host.checkObservations);
    this.owed = new OwedEnds(this.observing);
    this.#ticks = new Ticks({
      world,
      calls,
      running: this.#running,
      observing: this.observing,
      movingOn: () => this.owed.save(),
      ended: (seat, state) => this.#end(seat, state === "terminated" ? TERMINATED : INTERRUPTED),
      advanced: () => this.#advanced(),
    });
    this.#missed = new MissedDeadlines(clock, {
      tell: ({ agent }) => host.observer.deadlineMissed(agent),
      evict: (seat, reason) => host.evict(seat, reason),
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

  get missedDeadlines(): number {
    return this.#missed.count;
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
    const observations = this.owed.observations(owed, seat, pending);
    this.owed.settle(seat);
    seat.pending = undefined;
    pending.reply({ case: "step", value: { state: owed.state, observations } });
    this.#host.barrier.paid(seat);
  }

  #respond(seat: Seat, state: EnvironmentStateType): void {
    const pending = seat.pending as PendingStep;
    const observations = this.observing.observe(seat, pending.requested);
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

  #mayOpen(): boolean {
    if (this.open || this.#starting || this.blocked || this.#host.barrierActive) return false;
    return this.everOpened || this.#host.seats.size >= this.#host.settings.counts.min;
  }

  #begin(seats: readonly Seat[]): void {
    this.owed.save();
    const { settings, observer, calls, world } = this.#host;
    const agents = seats.map((seat) => seat.agent);
    this.#starting = true;
    const start = { settings: settings.values, random: settings.random, agents };
    const begun = (): void => {
      this.#starting = false;
      this.open = true;
      this.everOpened = true;
      this.#missed.moved();
      this.sequences += 1;
      observer.sequenceStarted();
      for (const seat of seats) this.#admit(seat);
      this.#driver.opened();
    };
    calls.call("start", () => world.start?.(start), begun);
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
    this.owed.save();
    const refused = this.#host.calls.refusal("enter", () => this.#host.world.enter?.(seat.agent));
    if (refused !== undefined) this.refuse(seat, refused);
    else {
      this.#admit(seat);
      this.#driver.entered(seat);
    }
  }

  nextTurn(previous: AgentId | undefined): AgentId | undefined {
    const agents = [...this.running].map((seat) => seat.agent);
    return this.#host.calls.sync("turn", () => this.#host.world.turn?.(agents, previous));
  }

  answer(seat: Seat): void {
    this.#respond(seat, RUNNING);
  }

  missed(seat: Seat): void {
    this.#missed.missed(seat);
  }

  advance(actions: TickActions): void {
    this.#ticks.advance(actions);
  }

  #advanced(): void {
    this.#missed.moved();
    if (this.#running.size === 0) this.close();
    else this.#driver.advanced();
  }

  /** Tells an agent that its sequence is over, now or at its next step. */
  #end(seat: Seat, state: EnvironmentStateType): void {
    if (seat.pending !== undefined && !seat.pending.first) {
      this.#respond(seat, state);
      seat.phase = "idle";
    } else {
      if (seat.pending !== undefined) this.#respond(seat, RUNNING);
      this.owed.owe(seat, state);
    }
    this.#running.delete(seat);
  }

  /** Cuts the sequence short for every agent in it; one that was not told RUNNING yet waits on, for the next. */
  interrupt(): void {
    for (const seat of this.running) {
      if (seat.pending?.first) {
        this.take(seat);
        this.opening.arrive(seat);
      } else this.#end(seat, INTERRUPTED);
    }
    this.close();
  }

  /** The sequence is over: nobody is RUNNING in it. */
  close(): void {
    if (!this.open) return;
    this.open = false;
    this.#missed.moved();
    this.#driver.closed();
    for (const seat of this.#host.seats) answerReset(seat);
    this.opening.check();
  }

  /** Takes an agent out of the sequence; `changed` must follow. */
  take(seat: Seat): void {
    if (this.#running.delete(seat) && seat.pending !== undefined) this.waiting -= 1;
    this.opening.withdraw(seat);
    this.owed.settle(seat);
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
}
