// SPDX-License-Identifier: Apache-2.0
import { type DmEnvRpcError, isDmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import type { StepRequest } from "@dm-env-rpc/tensor-codec/wire";
import type { AgentId } from "../definition/agent.ts";
import type { Awaitable } from "../definition/awaitable.ts";
import type { UntypedWorld, UntypedWorldDefinition } from "../definition/world.ts";
import { AuthorCalls } from "./author-calls.ts";
import { Engine } from "./engine.ts";
import type { HostOptions, Joined, SharedWorld, SpectatedAgent } from "./hosted-world.ts";
import { ownedStep } from "./owned-request.ts";
import type { AuthorCall, Done, PackedSettings, Reply } from "./requests.ts";
import type { RowStep, Seat, SeatView, WorldView } from "./state.ts";
import { Turnstile } from "./turnstile.ts";
import type { WorldCounts } from "./world-counts.ts";
import { WorldSettings } from "./world-settings.ts";

/** The counts of a world's state. */
function countsOf(state: WorldView): WorldCounts {
  const { ticks, steps, returns, returnSum, missedDeadlines, missedTicks, tickLagMs, moves } =
    state;
  const joinsAndLeaves = 2 * state.lastAgent - state.seats.size;
  const changes = moves + steps + joinsAndLeaves + missedDeadlines + missedTicks;
  return {
    ticks,
    steps,
    returns,
    returnSum,
    missedDeadlines,
    missedTicks,
    tickLagMs,
    changes,
  };
}

/**
 * A world that agents share: an engine, whose transitions a turnstile runs one at a time. A fault
 * in a transition ends only this world (behaviour 24).
 *
 * Callers pass the seats that `join` returned, typed as read-only `SeatView`s; the methods here accept
 * them as writable `Seat`s. The compiler allows this because it compares the parameters of methods
 * in both directions.
 */
export class WorldHost implements SharedWorld {
  readonly name: string;
  readonly definition: UntypedWorldDefinition;
  readonly #turnstile = new Turnstile();
  readonly #calls: AuthorCalls;
  readonly #engine: Engine;

  /** @throws DmEnvRpcError, TensorError if a setting is missing, unknown or invalid. */
  constructor(options: HostOptions) {
    const { name, definition, share, endBytes, time, limits, checkObservations, emit } = options;
    this.name = name;
    this.definition = definition;
    const settings = new WorldSettings(options);
    this.#calls = new AuthorCalls({
      turnstile: this.#turnstile,
      share,
      time,
      limits,
      emit,
      onFault: (fault) => this.#engine.fail(fault),
    });
    this.#engine = new Engine({
      name,
      definition,
      settings,
      maxAgentsPerWorld: limits.maxAgentsPerWorld,
      checkObservations,
      endBytes,
      outside: this.#calls,
    });
  }

  get state(): WorldView {
    return this.#engine.state;
  }

  get author(): UntypedWorld {
    return this.#engine.world;
  }

  get agentCount(): number {
    return this.state.seats.size;
  }

  get counts(): WorldCounts {
    return countsOf(this.state);
  }

  get isRunning(): boolean {
    return this.state.sequence === "open";
  }

  agents(): readonly SpectatedAgent[] {
    return [...this.state.seats.values()].map((seat) => ({ agent: seat.agent, seat }));
  }

  look(_agent: AgentId | undefined, see: (world: UntypedWorld | undefined) => void): void {
    this.#turnstile.enter(() => {
      const { gone, sequences } = this.state;
      see(gone === undefined && sequences > 0 ? this.author : undefined);
    });
  }

  create(done: Done<undefined>): void {
    this.#calls.operate(() => this.#engine.create(done));
  }

  join(settings: PackedSettings, onLeft: Seat["onLeft"], done: Done<Joined>, key?: string): void {
    const joined: Done<SeatView> = (result) =>
      done(isDmEnvRpcError(result) ? result : { world: this, seat: result });
    this.#calls.operate(() => this.#engine.join(settings, onLeft, joined, key));
  }

  hasSeat(key: string): boolean {
    return this.#engine.hasSeat(key);
  }

  drop(seat: Seat, onHeld: () => void): void {
    this.#calls.operate(() => this.#engine.drop(seat, onHeld));
  }

  leave(seat: Seat, done: Done<undefined>): void {
    this.#calls.operate(() => this.#engine.leave(seat, done));
  }

  leaveIfWaiting(seat: Seat): void {
    this.#calls.operate(() => this.#engine.leaveIfWaiting(seat));
  }

  /**
   * Steps an agent. Allocates no closure when no transition is in progress, which is the common
   * case.
   */
  step(seat: Seat, request: StepRequest, reply: Reply): void {
    if (!this.#turnstile.tryEnter()) {
      const owned = ownedStep(request);
      this.#calls.operate(() => this.#engine.step(seat, owned, reply));
      return;
    }
    try {
      this.#engine.step(seat, request, reply);
    } catch (error) {
      this.#engine.fail(error);
    } finally {
      this.#turnstile.release();
    }
  }

  stepAll(steps: readonly RowStep<Seat>[], refuse: (error: unknown, index: number) => void): void {
    this.#calls.operate(() => this.#engine.stepAll(steps, refuse));
  }

  whenIdle(callback: () => void): void {
    this.#turnstile.enter(callback);
  }

  reset(seat: Seat, settings: PackedSettings, reply: Reply): void {
    this.#calls.operate(() => this.#engine.reset(seat, settings, reply));
  }

  resetWorld(callers: readonly Seat[], settings: PackedSettings, done: Done<undefined>): void {
    this.#calls.operate(() => this.#engine.resetWorld(callers, settings, done));
  }

  call<T>(call: AuthorCall, run: () => Awaitable<T>, done: Done<{ readonly value: T }>): void {
    this.#calls.operate(() => this.#engine.call(call, run, done));
  }

  drain(reason: DmEnvRpcError, done: () => void): void {
    this.#calls.operate(() => this.#engine.drain(reason, done));
  }

  destroy(done: Done<undefined>): void {
    this.#calls.operate(() => this.#engine.destroy(done));
  }

  destroyIfEmpty(): void {
    this.#calls.operate(() => this.#engine.destroyIfEmpty());
  }

  destroyWhenEmpty(): void {
    this.#calls.operate(() => this.#engine.destroyWhenEmpty());
  }

  forceDestroy(): void {
    this.#calls.operate(() => this.#engine.destroyNow());
  }

  destroyNow(): void {
    this.#calls.guard(() => this.#engine.destroyNow());
  }
}
