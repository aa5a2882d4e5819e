// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import type { StepRequest } from "@dm-env-rpc/tensor-codec/wire";
import type { AgentId } from "../definition/agent.ts";
import type { Extension } from "../definition/extension.ts";
import { readSettings } from "../definition/settings.ts";
import type { UntypedWorld, UntypedWorldDefinition } from "../definition/world.ts";
import { calledIn, type OnFault } from "../properties/asked.ts";
import type { PropertyLayer } from "../properties/property-index.ts";
import { byTypeName } from "../properties/side-channel.ts";
import { worldLayer } from "../properties/world-layer.ts";
import { AuthorsWorld } from "./authors-world.ts";
import { Destroying, destroyedWorld } from "./destroying.ts";
import { fullWorld } from "./full-world.ts";
import type { Done, HostedWorld, HostOptions, Joined, PackedSettings } from "./hosted-world.ts";
import { Members, type MembersHost } from "./members.ts";
import type { ObservationChecks } from "./observing.ts";
import { ResetBarrier, type ResetHost } from "./reset-barrier.ts";
import { clientError } from "./responses.ts";
import { type Reply, Seat } from "./seat.ts";
import { SeatRequests, type SeatRequestsHost } from "./seat-requests.ts";
import { Sequence, type SequenceHost } from "./sequence.ts";
import { Turnstile } from "./turnstile.ts";
import { WaitingRequests } from "./waiting-requests.ts";
import { WorldCalls, worldFailure } from "./world-calls.ts";
import type { WorldEnd, WorldObserver } from "./world-observer.ts";
import { WorldSettings } from "./world-settings.ts";

/** The parts of a world that there are once its author's code has made it. */
interface Parts {
  readonly sequence: Sequence;
  readonly barrier: ResetBarrier;
  readonly properties: PropertyLayer;
  readonly extensions: ReadonlyMap<string, Extension>;
}

/**
 * One world on a server: its agents, their sequences, and the author's code
 * behind a wall. Everything that goes wrong in it ends here.
 */
export class WorldHost
  implements HostedWorld, SequenceHost, ResetHost, MembersHost, SeatRequestsHost
{
  readonly name: string;
  readonly definition: UntypedWorldDefinition;
  readonly calls: WorldCalls;
  readonly resetDeadlineMs: number;
  readonly #options: HostOptions;
  readonly settings: WorldSettings;
  readonly #turnstile = new Turnstile();
  readonly #requests: WaitingRequests;
  readonly #seatRequests: SeatRequests;
  readonly #members: Members;
  readonly #authors: AuthorsWorld;
  readonly #destroying: Destroying<Done<undefined>>;
  #parts: Parts | undefined;
  #nextAgent = 1;
  /** Why no sequence begins and nobody joins any more, while agents are told so. */
  closing: DmEnvRpcError | undefined;
  #gone: DmEnvRpcError | undefined;

  /** @throws DmEnvRpcError INVALID_ARGUMENT for bad settings. */
  constructor(options: HostOptions) {
    const { name, definition, time, limits, onFailure } = options;
    this.#options = options;
    this.name = name;
    this.definition = definition;
    this.resetDeadlineMs = definition.resetDeadlineMs ?? 10_000;
    this.settings = new WorldSettings(options);
    const calls = new WorldCalls(this.#turnstile, time, limits, (error) => this.#fail(error));
    this.calls = calls;
    this.#requests = new WaitingRequests(calls, () => this.#gone);
    this.#seatRequests = new SeatRequests(this, this.#turnstile, this.#requests);
    this.#members = new Members(this, options.observer);
    this.#authors = new AuthorsWorld({ name, definition, calls, onFailure });
    this.#destroying = new Destroying(this, {
      after: (delayMs, operation) => calls.after(delayMs, operation),
      end: () => this.#destroyed(),
    });
  }

  create(done: Done<undefined>): void {
    this.#requests.run(done, (finish) =>
      this.#authors.create(
        this.settings,
        (world) => {
          this.#parts = this.#makeParts(world);
          finish(undefined);
        },
        (error) => this.#end(clientError(error), "refused"),
      ),
    );
  }

  #makeParts(world: UntypedWorld): Parts {
    const { name, definition, seats, calls } = this;
    const requests = this.#requests;
    const sequence = new Sequence(this);
    const onFault: OnFault = (question, error) =>
      this.observer.answerFailed(calledIn(question), error);
    const parts = { name, definition, world, seats, sequence, calls, requests, onFault };
    return {
      sequence,
      barrier: new ResetBarrier(this),
      properties: worldLayer(parts),
      extensions: byTypeName(world.extensions ?? []),
    };
  }

  get #made(): Parts {
    if (this.#parts !== undefined) return this.#parts;
    throw new Error(`the world "${this.name}" has not been made yet`);
  }

  get world(): UntypedWorld {
    return this.#authors.made;
  }

  get seats(): ReadonlySet<Seat> {
    return this.#members.seats;
  }

  get barrier(): ResetBarrier {
    return this.#made.barrier;
  }

  get sequence(): Sequence {
    return this.#made.sequence;
  }

  /** Its properties, asked in its turn. */
  get properties(): PropertyLayer {
    return this.#made.properties;
  }

  get extensions(): ReadonlyMap<string, Extension> {
    return this.#made.extensions;
  }

  get agentCount(): number {
    return this.seats.size;
  }

  get observer(): WorldObserver {
    return this.#options.observer;
  }

  get checkObservations(): ObservationChecks {
    return this.#options.checkObservations;
  }

  get barrierActive(): boolean {
    return this.closing !== undefined || this.barrier.active;
  }

  // ——— joining and leaving

  /** An agent joins; the result is its seat. */
  join(settings: PackedSettings, done: Done<Joined>): void {
    this.#requests.run(done, (finish) => {
      if (this.closing !== undefined) throw this.closing;
      if (this.#destroying.isDraining) {
        throw new DmEnvRpcError(
          "FAILED_PRECONDITION",
          `the world "${this.name}" is being destroyed and takes no more agents; join another`,
        );
      }
      const full = fullWorld(
        this.name,
        this.seats.size,
        this.settings.counts.max,
        this.#options.limits,
      );
      if (full !== undefined) throw full;
      const values = readSettings(this.definition.joinSettings ?? {}, settings, "join", false);
      const specs = this.settings.specsFor(values, this.calls);
      const seat = new Seat(this.#nextAgent as AgentId, specs, values);
      this.#nextAgent += 1;
      this.sequence.observing.check(seat);
      this.sequence.owed.save();
      this.calls.call(
        "join",
        () => this.world.join?.(seat.agent, values),
        () => {
          this.#members.add(seat);
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
    this.#requests.run(left, (finish) => {
      this.#members.remove(seat);
      finish(undefined);
      this.#destroying.agentLeft();
    });
  }

  evict(seat: Seat, reason: DmEnvRpcError): void {
    this.#members.evict(seat, reason);
    this.#destroying.agentLeft();
  }

  // ——— stepping and resetting

  step(seat: Seat, request: StepRequest, reply: Reply): void {
    this.#seatRequests.step(seat, request, reply);
  }

  reset(seat: Seat, settings: PackedSettings, reply: Reply): void {
    this.#seatRequests.reset(seat, settings, reply);
  }

  /** A reset of the world, by one of its agents or by somebody else. */
  resetWorld(caller: Seat | undefined, settings: PackedSettings, done: Done<undefined>): void {
    this.#requests.run(done, (finish) => {
      if (caller?.gone !== undefined) throw caller.gone;
      const values = readSettings(
        this.definition.resetWorldSettings ?? {},
        settings,
        "reset world",
        true,
      );
      this.barrier.request(caller, values, () => finish(undefined));
    });
  }

  // ——— the end

  destroy(done: Done<undefined>): void {
    this.#requests.run(done, (finish) => this.#destroying.request(finish));
  }

  /** Takes no more agents, and ends when those that are there have left. */
  destroyWhenEmpty(): void {
    this.calls.operate(() => this.#destroying.whenEmpty());
  }

  /** Ends the world, whoever is in it. */
  forceDestroy(): void {
    this.calls.operate(() => this.#destroyed());
  }

  destroyIfEmpty(): void {
    this.calls.operate(() => {
      if (this.seats.size === 0) this.#destroyed();
    });
  }

  destroyNow(): void {
    this.calls.guard(() => this.#destroyed());
  }

  drain(reason: DmEnvRpcError, done: () => void): void {
    this.#requests.run(done, (finish) => {
      this.closing = reason;
      this.sequence.interrupt();
      for (const seat of this.seats) {
        if (seat.phase === "opening") this.sequence.refuse(seat, reason);
      }
      this.sequence.changed();
      finish(undefined);
    });
  }

  #destroyed(): void {
    if (this.#gone !== undefined) return;
    this.#authors.destroy();
    this.#end(destroyedWorld(this.name), "destroyed");
  }

  #fail(fault: unknown): void {
    if (this.#gone !== undefined) return;
    const failure = worldFailure(this.name, this.#authors.destroyAfter(fault));
    this.#options.onFailure(failure);
    this.#end(failure, "failed");
  }

  /** Tells everybody; whoever is told may ask at once for what takes the world's place. */
  #end(reason: DmEnvRpcError, how: WorldEnd): void {
    if (this.#gone !== undefined) return;
    this.#gone = reason;
    this.#destroying.stop();
    this.#parts?.sequence.stop();
    this.#parts?.barrier.stop();
    this.#members.end(reason, () => this.#options.onGone(how));
    const destroyers = how === "destroyed" ? this.#destroying.askers : [];
    this.#requests.end(reason, destroyers);
    for (const finish of destroyers) finish(undefined);
    this.calls.stop();
  }
}
