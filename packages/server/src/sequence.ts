// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { EnvironmentStateType, ResetResponseSchema } from "@dm-env-rpc/protocol";
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import type { AgentId, SequenceState } from "./agent.ts";
import type { ClockDriver, SequenceControl, TickActions } from "./clocks/clock.ts";
import { lockstep } from "./clocks/lockstep.ts";
import { type ObservationChecks, Observing } from "./observing.ts";
import { errorResponse } from "./responses.ts";
import type { PendingStep, Seat } from "./seat.ts";
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
 * The sequences of one world: how they begin, who is RUNNING, how they end, and
 * what agents are owed afterwards (behaviours 38 and 60–63). A clock says when
 * the world advances within one.
 */
export class Sequence implements SequenceControl {
  readonly running: Set<Seat> = new Set();
  waiting = 0;
  open = false;
  everOpened = false;
  /** Agents that left and that another has to join for. */
  vacancies = 0;
  missedDeadlines = 0;
  ticks = 0;
  sequences = 0;
  readonly #host: SequenceHost;
  readonly #observing: Observing;
  readonly #driver: ClockDriver;
  readonly #unsaved = new Set<Seat>();
  /** How often what agents wait for has come: a beginning, a tick, or an end. */
  #moves = 0;
  #cancelOpening: (() => void) | undefined;
  #nextTick: TickActions | undefined;
  #advancing = false;
  /** The highest agent that was RUNNING in this sequence. */
  #highest = 0;
  /** Whether the author's `start` has been called and has not come back. */
  #starting = false;

  constructor(host: SequenceHost) {
    this.#host = host;
    this.#observing = new Observing(host.world.observe, host.checkObservations);
    const clock = host.definition.clock ?? lockstep();
    this.#driver = clock.start(this);
  }

  get blocked(): boolean {
    return this.vacancies > 0;
  }

  after(delayMs: number, callback: () => void): () => void {
    return this.#host.calls.after(delayMs, callback);
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
        seat.phase = "opening";
        seat.straggler = false;
        if (this.open && (this.#host.definition.lateEntry ?? "now") === "now") this.#enter(seat);
        else this.tryOpen();
    }
  }

  #answerOwed(seat: Seat, { requested, reply }: PendingStep): void {
    const { state, saved } = seat.owed as NonNullable<Seat["owed"]>;
    const observations = saved
      ? requested.map(({ uid }) => saved.get(uid) as NonNullable<ReturnType<typeof saved.get>>)
      : this.#observing.observe(seat, requested, this.ticks);
    this.settleDebt(seat);
    seat.pending = undefined;
    reply({ case: "step", value: { state, observations } });
    this.#host.told(seat);
  }

  /** The agent knows, or need not be told, that its sequence is over. */
  settleDebt(seat: Seat): void {
    seat.owed = undefined;
    seat.phase = "idle";
    seat.reward.clear();
    this.#unsaved.delete(seat);
  }

  #respond(seat: Seat, state: EnvironmentStateType): void {
    const pending = seat.pending as PendingStep;
    const observations = this.#observing.observe(seat, pending.requested, this.ticks);
    seat.pending = undefined;
    if (seat.phase === "running") this.waiting -= 1;
    pending.reply({ case: "step", value: { state, observations } });
  }

  // ——— opening

  /** Begins a sequence if every agent that it waits for is there. */
  tryOpen(): void {
    if (this.open || this.#starting) return;
    const waits = !this.everOpened && this.#host.seats.size < this.#host.minAgents;
    if (waits || this.blocked || this.#host.barrierActive) {
      this.#disarmOpening();
      return;
    }
    const opening: Seat[] = [];
    let missing = 0;
    for (const seat of this.#host.seats) {
      if (seat.phase === "opening") opening.push(seat);
      else if (!seat.straggler) missing += 1;
    }
    if (opening.length === 0) {
      this.#disarmOpening();
      return;
    }
    if (missing === 0) this.#open(opening);
    else this.#armOpening();
  }

  #open(opening: readonly Seat[]): void {
    this.#disarmOpening();
    this.saveOwed();
    const agents = opening.map((seat) => seat.agent);
    this.#starting = true;
    this.#host.startWorld(agents, () => {
      this.#starting = false;
      this.open = true;
      this.#moves += 1;
      this.#highest = 0;
      this.everOpened = true;
      this.sequences += 1;
      this.#host.sequenceStarted();
      for (const seat of opening) this.#admit(seat);
      this.#driver.opened();
    });
  }

  #admit(seat: Seat): void {
    seat.phase = "running";
    seat.rewardTick = this.ticks;
    seat.lastActions = undefined;
    this.running.add(seat);
    this.waiting += 1;
    if (seat.agent > this.#highest) this.#highest = seat.agent;
    else this.#restoreOrder(seat);
  }

  /** Whoever comes back takes its old place in the order of joining. */
  #restoreOrder(seat: Seat): void {
    const later = [...this.running].filter((other) => other.agent > seat.agent);
    for (const other of later) {
      this.running.delete(other);
      this.running.add(other);
    }
  }

  #enter(seat: Seat): void {
    this.saveOwed();
    const refused = this.#host.calls.refusal("enter", () => this.#host.world.enter?.(seat.agent));
    if (refused !== undefined) {
      const reply = seat.pending?.reply;
      seat.pending = undefined;
      seat.phase = "idle";
      reply?.(errorResponse(refused));
      return;
    }
    this.#admit(seat);
    this.#driver.entered(seat);
  }

  #armOpening(): void {
    const { deadlineMs } = this.#host.definition.clock ?? {};
    if (deadlineMs === undefined || this.#cancelOpening !== undefined) return;
    this.#cancelOpening = this.#host.calls.after(deadlineMs, () => {
      this.#cancelOpening = undefined;
      this.#openingExpired();
    });
  }

  #disarmOpening(): void {
    this.#cancelOpening?.();
    this.#cancelOpening = undefined;
  }

  #openingExpired(): void {
    const policy = this.#host.definition.clock?.onMissedDeadline ?? "wait";
    const goesOn = policy === "default-action" || policy === "repeat-last";
    const late = [...this.#host.seats].filter(
      (seat) => seat.phase !== "opening" && !seat.straggler,
    );
    for (const seat of late) {
      this.missed(seat);
      if (goesOn) seat.straggler = true;
    }
    // Where the late ones were taken out, the beginning has come about by that.
    if (goesOn) this.tryOpen();
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
    this.#nextTick = actions;
    if (this.#advancing) return;
    this.#advancing = true;
    this.#runTicks();
  }

  /** Ticks until the clock asks for no more; a world that takes its time comes back here. */
  #runTicks(): void {
    while (this.#nextTick !== undefined) {
      const actions = this.#nextTick;
      this.#nextTick = undefined;
      this.saveOwed();
      for (const seat of this.running) this.#observing.addReward(seat, this.ticks);
      let answered = false;
      let late = false;
      this.#host.calls.call(
        "step",
        () => this.#host.world.step(actions as ReadonlyMap<AgentId, never>),
        () => {
          answered = true;
          this.#advanced();
          if (late) this.#runTicks();
        },
      );
      if (!answered) {
        late = true;
        return;
      }
    }
    this.#advancing = false;
  }

  #advanced(): void {
    this.ticks += 1;
    this.#moves += 1;
    for (const seat of this.running) {
      const state = this.#status(seat);
      if (state !== "running") {
        this.#end(seat, state === "terminated" ? TERMINATED : INTERRUPTED);
      }
    }
    if (this.running.size === 0) this.close();
    else this.#driver.advanced();
  }

  #status(seat: Seat): SequenceState {
    const ask = () => this.#host.world.status?.(seat.agent);
    return this.#host.calls.sync("status", ask) ?? "running";
  }

  /** Tells an agent that its sequence is over, now or at its next step. */
  #end(seat: Seat, state: EnvironmentStateType): void {
    if (seat.pending !== undefined && !seat.pending.first) {
      this.#respond(seat, state);
      seat.phase = "idle";
    } else {
      if (seat.pending !== undefined) this.#respond(seat, RUNNING);
      this.#observing.addReward(seat, this.ticks);
      seat.phase = "owed";
      seat.owed = { state, saved: undefined };
      this.#unsaved.add(seat);
    }
    this.running.delete(seat);
  }

  // ——— endings

  /** Cuts the sequence short for every agent in it; one that was not told RUNNING yet waits on, for the next. */
  interrupt(): void {
    for (const seat of this.running) {
      if (seat.pending?.first) {
        this.take(seat);
        seat.phase = "opening";
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
    this.tryOpen();
  }

  /** Keeps what agents are owed, before the world moves on from it. */
  saveOwed(): void {
    if (this.#unsaved.size === 0) return;
    for (const seat of this.#unsaved) {
      if (seat.owed) seat.owed.saved = this.#observing.save(seat, this.ticks);
    }
    this.#unsaved.clear();
  }

  /** Takes an agent out of the sequence; `changed` must follow. */
  take(seat: Seat): void {
    if (this.running.delete(seat) && seat.pending !== undefined) this.waiting -= 1;
    this.#unsaved.delete(seat);
    seat.owed = undefined;
    seat.reward.clear();
    seat.phase = "idle";
  }

  /** The set of agents changed: ends, goes on with or begins a sequence. */
  changed(): void {
    if (!this.open) this.tryOpen();
    else if (this.running.size === 0) this.close();
    else this.#driver.changed();
  }

  /** Ends every wait, because the world is gone. */
  stop(): void {
    this.#nextTick = undefined;
    this.#disarmOpening();
    if (this.open) this.#driver.closed();
    this.open = false;
  }

  // ——— resets of one agent

  /** Resets an agent whose settings have been taken over. */
  reset(seat: Seat, specs: Seat["specs"], reply: PendingStep["reply"]): void {
    if (seat.phase !== "running") {
      if (seat.phase === "owed") this.settleDebt(seat);
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
