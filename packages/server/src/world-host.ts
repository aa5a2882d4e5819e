// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError, isDmEnvRpcError, type StepRequest } from "@dm-env-rpc/tensor-codec";
import type { AgentId } from "./agent.ts";
import { type Awaitable, isPromiseLike } from "./awaitable.ts";
import type { Extension } from "./extension.ts";
import type { Done, HostedWorld, Joined, PackedSettings } from "./hosted-world.ts";
import type { CallLimits, ServerLimits } from "./limits.ts";
import type { ObservationChecks } from "./observing.ts";
import { worldProperties } from "./properties/built-in.ts";
import { indexProperties, type PropertyLayer } from "./properties/property-index.ts";
import { type SeededRandom, seededRandom } from "./random.ts";
import { ResetBarrier, type ResetHost } from "./reset-barrier.ts";
import { asClientError, clientError, errorResponse, keepable, messageOf } from "./responses.ts";
import { type Reply, Seat } from "./seat.ts";
import { type ActionValues, SeatSpecs } from "./seat-specs.ts";
import { Sequence, type SequenceHost } from "./sequence.ts";
import { readSettings } from "./settings.ts";
import { byTypeName } from "./side-channel.ts";
import type { TimeSource } from "./time-source.ts";
import { Turnstile } from "./turnstile.ts";
import type { AgentCounts, UntypedWorld, UntypedWorldDefinition } from "./world.ts";
import { isRefusal, WorldCalls, WorldFault, worldFailure } from "./world-calls.ts";
import type { WorldEnd, WorldObserver } from "./world-observer.ts";

type Settings = Readonly<Record<string, unknown>>;

/** What a world's host is made with. */
export interface WorldHostOptions {
  readonly definition: UntypedWorldDefinition;
  readonly name: string;
  /** The create settings as they came. */
  readonly settings: PackedSettings;
  /** For worlds that nobody gave a `seed`. */
  readonly randomSeed: () => bigint;
  readonly time: TimeSource;
  /** How long a call of the author's code may take, and how many agents there may be. */
  readonly limits: CallLimits & Pick<ServerLimits, "maxAgentsPerWorld" | "maxElements">;
  readonly checkObservations: ObservationChecks;
  readonly observer: WorldObserver;
  /** Told once, when the world is there no more. */
  readonly onGone: (how: WorldEnd) => void;
  /** Told of a failure, before `onGone`. */
  readonly onFailure: (error: DmEnvRpcError) => void;
  /** Goes before the setting `seed`. */
  readonly seed?: bigint;
}

const noActions: ActionValues = Object.freeze({});

/**
 * One world on a server: its agents, their sequences, and the author's code
 * behind a wall. Everything that goes wrong in it ends here.
 */
export class WorldHost implements HostedWorld, SequenceHost, ResetHost {
  readonly name: string;
  readonly definition: UntypedWorldDefinition;
  readonly calls: WorldCalls;
  readonly seats: Set<Seat> = new Set();
  readonly resetDeadlineMs: number;
  readonly #turnstile = new Turnstile();
  readonly #options: WorldHostOptions;
  readonly #waiting = new Set<Done<never>>();
  readonly #destroyers: Done<undefined>[] = [];
  #settings: Settings;
  #random: SeededRandom;
  #counts: Required<AgentCounts>;
  #world: UntypedWorld | undefined;
  #sequence: Sequence | undefined;
  #barrier: ResetBarrier | undefined;
  #properties: PropertyLayer | undefined;
  extensions: ReadonlyMap<string, Extension> = new Map();
  #nextAgent = 1;
  #fixedSpecs: SeatSpecs | undefined;
  #draining = false;
  #cancelDrain: (() => void) | undefined;
  /** Why no sequence begins and nobody joins any more, while agents are told so. */
  #closing: DmEnvRpcError | undefined;
  #gone: DmEnvRpcError | undefined;
  #isDestroyed = false;

  /** @throws DmEnvRpcError INVALID_ARGUMENT for bad settings. */
  constructor(options: WorldHostOptions) {
    const { definition, time } = options;
    this.#options = options;
    this.name = options.name;
    this.definition = definition;
    this.resetDeadlineMs = definition.resetDeadlineMs ?? 10_000;
    this.#settings = readSettings(definition.settings ?? {}, options.settings, "create", false);
    this.#random = seededRandom(options.seed ?? seedOf(this.#settings) ?? options.randomSeed());
    const { agents = {} } = definition;
    this.#counts = {
      min: 1,
      max: 1000,
      ...(typeof agents === "function" ? agents(this.#settings as never) : agents),
    };
    this.calls = new WorldCalls(this.#turnstile, time, options.limits, (error) =>
      this.#fail(error),
    );
  }

  /** Makes the author's world; called once, before everything else. */
  create(done: Done<undefined>): void {
    const make = (): Awaitable<UntypedWorld> => {
      const made = this.definition.create({
        settings: this.#settings as never,
        random: this.#random,
      }) as Awaitable<UntypedWorld>;
      return isPromiseLike(made) ? made.then((world) => this.#inTime(world)) : made;
    };
    this.#request(done, (finish) =>
      this.calls.call(
        "create",
        make,
        (world) => {
          this.#world = world;
          this.#sequence = new Sequence(this);
          this.#barrier = new ResetBarrier(this);
          this.#properties = this.#propertyLayer(world);
          this.extensions = byTypeName(world.extensions ?? []);
          finish(undefined);
        },
        (error) => this.#end(clientError(error), "refused"),
      ),
    );
  }

  /** A world that nobody waits for any more is over at once. */
  #inTime(world: UntypedWorld): UntypedWorld {
    if (this.#gone === undefined) return world;
    try {
      this.#tellOver(world);
    } catch (error) {
      this.#options.onFailure(worldFailure(this.name, error));
    }
    return world;
  }

  get world(): UntypedWorld {
    return this.#made(this.#world);
  }

  get sequence(): Sequence {
    return this.#made(this.#sequence);
  }

  /** Its properties, asked in its turn. */
  get properties(): PropertyLayer {
    return this.#made(this.#properties);
  }

  get #resetBarrier(): ResetBarrier {
    return this.#made(this.#barrier);
  }

  #made<T>(part: T | undefined): T {
    if (part === undefined) throw new Error(`the world "${this.name}" has not been made yet`);
    return part;
  }

  get agentCount(): number {
    return this.seats.size;
  }

  get checkObservations(): ObservationChecks {
    return this.#options.checkObservations;
  }

  get minAgents(): number {
    return this.#counts.min;
  }

  get barrierActive(): boolean {
    return this.#closing !== undefined || this.#resetBarrier.active;
  }

  // ——— joining and leaving

  /** An agent joins; the result is its seat. */
  join(settings: PackedSettings, done: Done<Joined>): void {
    this.#request(done, (finish) => {
      if (this.#closing !== undefined) throw this.#closing;
      if (this.#draining) {
        throw new DmEnvRpcError(
          "FAILED_PRECONDITION",
          `the world "${this.name}" is being destroyed and takes no more agents; join another`,
        );
      }
      const full = fullWorld(this.name, this.seats.size, this.#counts.max, this.#options.limits);
      if (full !== undefined) throw full;
      const values = readSettings(this.definition.joinSettings ?? {}, settings, "join", false);
      const specs = this.#specs(values);
      const seat = new Seat(this.#nextAgent as AgentId, specs, values);
      this.#nextAgent += 1;
      this.sequence.checkObservers(seat);
      this.sequence.saveOwed();
      this.calls.call(
        "join",
        () => this.#world?.join?.(seat.agent, values),
        () => {
          this.seats.add(seat);
          this.#options.observer.agentJoined(seat.agent);
          if (this.sequence.vacancies > 0) this.sequence.vacancies -= 1;
          finish({ host: this, seat });
          this.sequence.changed();
        },
        (error) => finish(clientError(error)),
      );
    });
  }

  /** An agent leaves, or its connection is gone; a world that ends first has been left as well. */
  leave(seat: Seat, done: Done<undefined>): void {
    if (seat.gone !== undefined) {
      done(undefined);
      return;
    }
    const left: Done<undefined> = () => done(undefined);
    this.#request(left, (finish) => {
      this.#remove(seat);
      finish(undefined);
      this.#destroyIfDrained();
    });
  }

  /** Takes an agent out of the world; its outstanding request, and every next one, is answered with the reason. */
  evict(seat: Seat, reason: DmEnvRpcError): void {
    this.#dismiss(seat, reason);
    this.#remove(seat);
    this.#destroyIfDrained();
  }

  #dismiss(seat: Seat, reason: DmEnvRpcError): void {
    seat.gone = keepable(reason);
    const reply = seat.pending?.reply ?? seat.resetting?.reply;
    if (seat.phase === "running" && seat.pending !== undefined) this.sequence.waiting -= 1;
    seat.pending = undefined;
    seat.resetting = undefined;
    reply?.(errorResponse(reason));
  }

  #remove(seat: Seat): void {
    if (!this.seats.delete(seat)) return;
    this.#left(seat, seat.gone);
    const { sequence } = this;
    sequence.leave(seat);
    sequence.saveOwed();
    this.calls.sync("leave", () => this.#world?.leave?.(seat.agent));
    if (sequence.everOpened) {
      if (this.definition.onLeave === "block") sequence.vacancies += 1;
      else if (this.definition.onLeave === "terminate") sequence.interrupt();
    }
    this.#resetBarrier.paid(seat);
    sequence.changed();
    if (this.seats.size === 0) this.#options.observer.emptied();
  }

  #left(seat: Seat, reason: DmEnvRpcError | undefined): void {
    this.#options.observer.agentLeft(seat.agent, reason);
    seat.onLeft();
  }

  /** Takes no more agents, and ends when those that are there have left. */
  destroyWhenEmpty(): void {
    this.calls.operate(() => {
      this.#draining = true;
      this.#destroyIfDrained();
    });
  }

  /** Ends the world, whoever is in it. */
  forceDestroy(): void {
    this.calls.operate(() => this.#destroyed());
  }

  #destroyIfDrained(): void {
    if (this.#draining && this.seats.size === 0) this.#destroyed();
  }

  // ——— stepping and resetting

  /** A step of an agent; answered when the world's clock says so. */
  step(seat: Seat, request: StepRequest, reply: Reply): void {
    if (!this.#turnstile.tryEnter()) {
      this.#turnstile.enter(() => this.#step(seat, request, reply));
      return;
    }
    try {
      this.#step(seat, request, reply);
    } finally {
      this.#turnstile.release();
    }
  }

  #step(seat: Seat, request: StepRequest, reply: Reply): void {
    if (seat.gone !== undefined) {
      reply(errorResponse(seat.gone));
      return;
    }
    const first = seat.phase !== "running";
    if (this.#closing !== undefined && first && seat.phase !== "owed") {
      reply(errorResponse(this.#closing));
      return;
    }
    let requested: ReturnType<SeatSpecs["readRequested"]>;
    let actions = noActions;
    try {
      requested = seat.specs.readRequested(request);
      if (!first) actions = seat.specs.readActions(request);
    } catch (error) {
      reply(errorResponse(error));
      return;
    }
    try {
      this.sequence.arrive(seat, { actions, requested, reply, first });
    } catch (error) {
      this.#fail(error);
    }
  }

  /** A reset of one agent. */
  reset(seat: Seat, settings: PackedSettings, reply: Reply): void {
    if (seat.gone !== undefined) {
      reply(errorResponse(seat.gone));
      return;
    }
    const failed: Done<never> = (error) => reply(errorResponse(error));
    this.#request(failed, (finish) => {
      if (seat.gone !== undefined) throw seat.gone;
      const values = readSettings(this.definition.resetSettings ?? {}, settings, "reset", true);
      let { specs } = seat;
      if (settings.size > 0) {
        const merged = { ...seat.settings, ...values };
        specs = this.#specs(merged);
        this.sequence.saveOwed();
        const refused = this.calls.refusal("reset", () => this.#world?.reset?.(seat.agent, values));
        if (refused !== undefined) throw refused;
        seat.settings = merged;
      }
      this.#waiting.delete(finish);
      this.sequence.reset(seat, specs, reply);
    });
  }

  /** A reset of the world, by one of its agents or by somebody else. */
  resetWorld(caller: Seat | undefined, settings: PackedSettings, done: Done<undefined>): void {
    this.#request(done, (finish) => {
      if (caller?.gone !== undefined) throw caller.gone;
      const values = readSettings(
        this.definition.resetWorldSettings ?? {},
        settings,
        "reset world",
        true,
      );
      this.#resetBarrier.request(caller, values, () => finish(undefined));
    });
  }

  applyResetSettings(settings: Settings): void {
    this.#settings = { ...this.#settings, ...settings };
    const seed = seedOf(settings);
    if (seed !== undefined) this.#random = seededRandom(seed);
  }

  startWorld(agents: readonly AgentId[], then: () => void): void {
    const start = { settings: this.#settings, agents, random: this.#random };
    this.calls.call("start", () => this.#world?.start?.(start), then);
  }

  told(seat: Seat): void {
    this.#resetBarrier.paid(seat);
  }

  sequenceStarted(): void {
    this.#options.observer.sequenceStarted();
  }

  deadlineMissed(seat: Seat): void {
    this.#options.observer.deadlineMissed(seat.agent);
  }

  // ——— beside the agents' lives

  #propertyLayer(world: UntypedWorld): PropertyLayer {
    const { seats, sequence, definition, name } = this;
    const facts = {
      name,
      definition,
      get agentCount() {
        return seats.size;
      },
      get ticks() {
        return sequence.ticks;
      },
      get sequences() {
        return sequence.sequences;
      },
      get missedDeadlines() {
        return sequence.missedDeadlines;
      },
    };
    return {
      index: indexProperties({ ...world.properties, ...worldProperties(facts) }),
      call: (run) => this.#ask(run),
    };
  }

  /** Calls an author's function whose failure concerns nobody but the one who asks. */
  #ask<T>(run: () => Awaitable<T>): Promise<T> {
    const kindly = (): Awaitable<T> => {
      try {
        const result = run();
        if (!isPromiseLike(result)) return result;
        return result.then(undefined, (error: unknown) => {
          throw asClientError(error);
        });
      } catch (error) {
        throw asClientError(error);
      }
    };
    return new Promise((resolve, reject) => {
      const done: Done<{ readonly value: T }> = (result) => {
        if (isDmEnvRpcError(result)) reject(result);
        else resolve(result.value);
      };
      this.#request(done, (finish) =>
        this.calls.call(
          "properties",
          kindly,
          (value) => finish({ value }),
          (error) => finish(clientError(error)),
        ),
      );
    });
  }

  // ——— the end

  /** Destroys the world, as its policy for agents that are joined says. */
  destroy(done: Done<undefined>): void {
    this.#request(done, (finish) => {
      const { size } = this.seats;
      const policy = this.definition.onDestroy ?? "refuse";
      if (size > 0 && policy === "refuse") {
        throw new DmEnvRpcError(
          "FAILED_PRECONDITION",
          `the world "${this.name}" has ${size} agents joined; have them leave first`,
        );
      }
      this.#destroyers.push(finish);
      if (size === 0 || policy === "force") {
        this.#destroyed();
        return;
      }
      this.#draining = true;
      this.#cancelDrain ??= this.calls.after(this.definition.drainDeadlineMs ?? 30_000, () =>
        this.#destroyed(),
      );
    });
  }

  drain(reason: DmEnvRpcError, done: () => void): void {
    this.#request(done, (finish) => {
      this.#closing = reason;
      this.sequence.interrupt();
      for (const seat of this.seats) {
        if (seat.phase === "opening") this.sequence.refuse(seat, reason);
      }
      this.sequence.changed();
      finish(undefined);
    });
  }

  destroyIfEmpty(): void {
    this.calls.operate(() => {
      if (this.seats.size === 0) this.#destroyed();
    });
  }

  destroyNow(): void {
    this.calls.guard(() => this.#destroyed());
  }

  #destroyed(): void {
    if (this.#gone !== undefined) return;
    this.#destroyWorld();
    const reason = new DmEnvRpcError(
      "NOT_FOUND",
      `the world "${this.name}" was destroyed; leave it, and create or join another`,
    );
    this.#end(reason, "destroyed");
  }

  #fail(fault: unknown): void {
    if (this.#gone !== undefined) return;
    const failure = worldFailure(this.name, this.#afterDestroy(fault));
    this.#options.onFailure(failure);
    this.#end(failure, "failed");
  }

  /** What went wrong, once the author's world has been told that it is over, which may go wrong as well. */
  #afterDestroy(fault: unknown): unknown {
    try {
      this.#destroyWorld();
      return fault;
    } catch (error) {
      return new AggregateError([fault, error], `${messageOf(fault)}; then ${messageOf(error)}`);
    }
  }

  /** Tells the author's world, once, that it is over. */
  #destroyWorld(): void {
    if (this.#isDestroyed) return;
    this.#isDestroyed = true;
    this.#tellOver(this.#world);
  }

  /** Nobody waits for a world that is over; what it could not tidy up is the operator's to know. */
  #tellOver(world: UntypedWorld | undefined): void {
    try {
      const over = world?.destroy?.();
      over?.then(undefined, (error: unknown) =>
        this.#options.onFailure(worldFailure(this.name, new WorldFault("destroy", error))),
      );
    } catch (error) {
      throw new WorldFault("destroy", error);
    }
  }

  /** Tells everybody; whoever is told may ask at once for what takes the world's place. */
  #end(reason: DmEnvRpcError, how: WorldEnd): void {
    if (this.#gone !== undefined) return;
    this.#gone = reason;
    this.#cancelDrain?.();
    this.#sequence?.stop();
    this.#barrier?.stop();
    const seats = [...this.seats];
    this.seats.clear();
    for (const seat of seats) this.#left(seat, reason);
    this.#options.onGone(how);
    for (const seat of seats) this.#dismiss(seat, reason);
    const destroyers = how === "destroyed" ? this.#destroyers : [];
    const succeeded = new Set<Done<never>>(destroyers);
    for (const finish of [...this.#waiting]) if (!succeeded.has(finish)) finish(reason);
    for (const finish of destroyers) finish(undefined);
    this.calls.stop();
  }

  /** Runs what a request asks for, when nothing else goes on; `done` is called once, whatever happens. */
  #request<T>(done: Done<T>, operation: (finish: Done<T>) => void): void {
    const finish: Done<T> = (result) => {
      if (this.#waiting.delete(finish)) done(result);
    };
    this.#waiting.add(finish);
    this.calls.operate(() => {
      if (this.#gone !== undefined) {
        finish(this.#gone);
        return;
      }
      try {
        operation(finish);
      } catch (error) {
        if (isRefusal(error)) finish(clientError(error));
        else throw error;
      }
    });
  }

  #specs(join: Settings): SeatSpecs {
    const { actions, observations } = this.definition;
    const { maxElements } = this.#options.limits;
    if (typeof actions !== "function" && typeof observations !== "function") {
      this.#fixedSpecs ??= new SeatSpecs(actions, observations, maxElements);
      return this.#fixedSpecs;
    }
    const settings = { create: this.#settings, join } as never;
    const resolve = <T>(specs: T | ((from: never) => T)): T =>
      typeof specs === "function" ? (specs as (from: never) => T)(settings) : specs;
    let made: SeatSpecs | undefined;
    // Settings of which no specs can be made are the fault of who gave them.
    const refused = this.calls.refusal("specs", () => {
      made = new SeatSpecs(resolve(actions), resolve(observations), maxElements);
    });
    if (made === undefined) throw refused;
    return made;
  }
}

/** The error of a world that has no room for one agent more. */
export function fullWorld(
  name: string,
  agents: number,
  max: number,
  { maxAgentsPerWorld }: Pick<ServerLimits, "maxAgentsPerWorld">,
): DmEnvRpcError | undefined {
  const room = Math.min(max, maxAgentsPerWorld);
  if (agents < room) return undefined;
  const limit = max <= maxAgentsPerWorld ? "agents.max" : "maxAgentsPerWorld";
  return new DmEnvRpcError(
    "RESOURCE_EXHAUSTED",
    `the world "${name}" has room for ${room} agents and is full; wait until one leaves, or join another (limit: ${limit})`,
  );
}

/** The seed among some settings, if there is one. */
export function seedOf(settings: Settings): bigint | undefined {
  const seed = settings["seed"];
  return typeof seed === "bigint" || typeof seed === "number"
    ? BigInt.asUintN(64, BigInt(seed))
    : undefined;
}
