// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError, isDmEnvRpcError, pack } from "@dm-env-rpc/tensor-codec";
import type { AgentId } from "../definition/agent.ts";
import type { BatchRequest } from "../definition/batch/request.ts";
import { asksForBatch, readBatch } from "../definition/batch/settings.ts";
import { seedOf } from "../definition/seed.ts";
import { readSettings, seedSetting } from "../definition/settings.ts";
import type { UntypedWorld, UntypedWorldDefinition } from "../definition/world.ts";
import { destroyedWorld, mayDestroyNow } from "../engine/destroy-policy.ts";
import { fullWorld } from "../engine/full-world.ts";
import type {
  HostedWorld,
  HostOptions,
  Joined,
  SharedWorld,
  SpectatedAgent,
} from "../engine/hosted-world.ts";
import type { Cancel, WorldEvent } from "../engine/outside.ts";
import type { Done, PackedSettings } from "../engine/requests.ts";
import { clientError } from "../engine/responses.ts";
import type { Seat, SeatView } from "../engine/state.ts";
import { addCounts, noCounts, type WorldCounts } from "../engine/world-counts.ts";
import { WorldHost } from "../engine/world-host.ts";
import { WorldSettings } from "../engine/world-settings.ts";

/**
 * A world whose agents share only its name and settings. Each agent has a separate world with a
 * separate seed; a failure ends only that agent's world.
 */
export class PerAgentWorlds implements HostedWorld {
  readonly name: string;
  readonly definition: UntypedWorldDefinition;
  readonly #options: HostOptions;
  /** Settings of the create, with the random source from which each agent's seed is derived. */
  readonly #settings: WorldSettings;
  /** The world of each agent, by the agent's number in events. */
  readonly #worlds = new Map<AgentId, SharedWorld>();
  /** Number of slots of each agent that joined as a batch. */
  readonly #slots = new Map<AgentId, number>();
  #lastAgent = 0;
  /** Counts of the worlds whose agents have left. */
  #past: WorldCounts = noCounts;
  /** Callbacks of destroys that wait for the agents to leave. */
  readonly #destroyers: (() => void)[] = [];
  #isDraining = false;
  #cancelDrainDeadline: Cancel | undefined;
  #closing: DmEnvRpcError | undefined;
  #isGone = false;

  /** @throws DmEnvRpcError, TensorError if a setting is missing, unknown or invalid. */
  constructor(options: HostOptions) {
    const { name, definition } = options;
    this.#settings = new WorldSettings(options);
    this.name = name;
    this.definition = definition;
    this.#options = options;
  }

  get agentCount(): number {
    return this.#worlds.size;
  }

  get counts(): WorldCounts {
    return [...this.#worlds.values()].reduce(
      (sum, { counts }) => addCounts(sum, counts),
      this.#past,
    );
  }

  get isRunning(): boolean {
    return [...this.#worlds.values()].some(({ isRunning }) => isRunning);
  }

  *agents(): Iterable<SpectatedAgent> {
    for (const [agent, world] of this.#worlds) {
      const [seated] = world.agents();
      if (seated !== undefined) {
        yield { agent, seat: seated.seat };
      }
    }
  }

  look(agent: AgentId | undefined, see: (world: UntypedWorld | undefined) => void): void {
    const [first] = this.#worlds.values();
    const world = agent === undefined ? first : this.#worlds.get(agent);
    if (world === undefined) {
      see(undefined);
    } else {
      world.look(undefined, see);
    }
  }

  create(done: Done<undefined>): void {
    done(undefined);
  }

  join(settings: PackedSettings, onLeft: Seat["onLeft"], done: Done<Joined>, key?: string): void {
    const own = key === undefined ? undefined : this.#worldOf(key);
    if (own !== undefined) {
      own.join(settings, onLeft, done, key);
      return;
    }
    this.#joinAnew(settings, onLeft, done, key);
  }

  #worldOf(key: string): SharedWorld | undefined {
    return [...this.#worlds.values()].find((world) => world.hasSeat(key));
  }

  #joinAnew(
    settings: PackedSettings,
    onLeft: Seat["onLeft"],
    done: Done<Joined>,
    key: string | undefined,
  ): void {
    let world: SharedWorld;
    let own = settings;
    try {
      let request: BatchRequest | undefined;
      if (asksForBatch(this.definition, settings)) {
        ({ request, rest: own } = readBatch(this.definition, settings));
      }
      const { joinSettings = {} } = this.definition;
      const seed = seedOf(readSettings(joinSettings, own, "join", false));
      this.#checkRoom(request);
      world = this.#add(seed, request);
    } catch (error) {
      done(clientError(error));
      return;
    }
    world.create((result) => {
      if (isDmEnvRpcError(result)) {
        done(result);
      } else {
        world.join(own, onLeft, done, key);
      }
      world.destroyWhenEmpty();
    });
  }

  /** @throws DmEnvRpcError if the world has no room for another agent, or for that many slots. */
  #checkRoom(request: BatchRequest | undefined): void {
    if (this.#closing !== undefined) {
      throw this.#closing;
    }
    if (this.#isGone || this.#isDraining) {
      throw destroyedWorld(this.name);
    }
    const { maxAgentsPerWorld, maxSlotsPerWorld } = this.#options.limits;
    const { counts, declaredMax = Number.POSITIVE_INFINITY } = this.#settings;
    const { size = 1 } = request ?? {};
    let slots = 0;
    for (const count of this.#slots.values()) {
      slots += count;
    }
    const environments = this.#worlds.size - this.#slots.size + slots;
    const full =
      fullWorld(this.name, this.#worlds.size, counts.max, maxAgentsPerWorld) ??
      fullWorld(this.name, environments + size - 1, declaredMax, Number.POSITIVE_INFINITY);
    if (full !== undefined) {
      throw full;
    }
    if (request !== undefined && slots + size > maxSlotsPerWorld) {
      throw tooManySlots(this.name, size, maxSlotsPerWorld - slots);
    }
  }

  /**
   * @param seed The seed of the join. Default: the next seed derived from the seed of the create.
   * @throws DmEnvRpcError if the environment cannot be joined as a batch.
   */
  #add(seed: bigint | undefined, request: BatchRequest | undefined): SharedWorld {
    const derived = this.#nextSeed();
    const agent = (this.#lastAgent + 1) as AgentId;
    const one = { ...this.definition, agents: { min: 1, max: 1 } };
    const world = new WorldHost({
      ...this.#options,
      definition: one,
      seed: seed ?? derived,
      emit: (event) => this.#report(agent, event),
      ...(request !== undefined && this.#batch(agent, request, one)),
    });
    this.#lastAgent = agent;
    this.#worlds.set(agent, world);
    if (request !== undefined) {
      this.#slots.set(agent, request.size);
    }
    return world;
  }

  /** Returns the options that a batch's world overrides. */
  #batch(
    agent: AgentId,
    request: BatchRequest,
    definition: UntypedWorldDefinition,
  ): Partial<HostOptions> {
    const { limits, time, checkObservations } = this.#options;
    const { joinMs, resetMs, stepMs } = limits;
    // A step of a batch may create, begin and step environments. The batch itself limits each call.
    const wholeMs = 2 * (joinMs + resetMs + stepMs);
    const batched = definition.batched?.(definition, request, {
      checks: checkObservations,
      maxElements: limits.maxElements,
      limits,
      after: (delayMs, callback) => time.after(delayMs, callback),
      onFailed: (failures) => this.#report(agent, { kind: "slots-failed", agent, ...failures }),
    });
    return {
      definition: { ...definition, ...batched },
      limits: { ...limits, joinMs: wholeMs, resetMs: wholeMs, stepMs: wholeMs },
      checkObservations: batched?.checksObservations === true ? "off" : checkObservations,
    };
  }

  /**
   * Reports an event of one agent's world as an event of this world, with the agent's number in
   * this world.
   */
  #report(agent: AgentId, event: WorldEvent): void {
    const { emit } = this.#options;
    switch (event.kind) {
      case "agent-joined":
      case "agent-left":
      case "deadline-missed":
        emit({ ...event, agent });
        return;
      case "sequence-started":
      case "ticks-missed":
      case "slots-failed":
      case "failed":
        emit(event);
        return;
      case "gone":
        this.#past = addCounts(this.#past, this.#worlds.get(agent)?.counts ?? noCounts);
        this.#worlds.delete(agent);
        this.#slots.delete(agent);
        if (this.#worlds.size > 0) {
          return;
        }
        emit({ kind: "emptied" });
        if (this.#isDraining) {
          this.#end((world) => world.forceDestroy());
        }
    }
  }

  resetWorld(callers: readonly SeatView[], settings: PackedSettings, done: Done<undefined>): void {
    const { resetWorldSettings = {} } = this.definition;
    try {
      this.#settings.reseed(readSettings(resetWorldSettings, settings, "reset world", true));
    } catch (error) {
      done(clientError(error));
      return;
    }
    if (this.#worlds.size === 0) {
      done(undefined);
    }
    let failure: DmEnvRpcError | undefined;
    const over = afterAll(this.#worlds.size, () => done(failure));
    for (const world of [...this.#worlds.values()]) {
      const own = callers.filter((caller) => world.state.seats.get(caller.agent) === caller);
      world.resetWorld(own, this.#withOwnSeed(settings), (result) => {
        if (isDmEnvRpcError(result)) {
          failure = result;
        }
        over();
      });
    }
  }

  /**
   * Returns the settings of a reset of the world for one agent, with a seed derived from the common
   * seed.
   */
  #withOwnSeed(settings: PackedSettings): PackedSettings {
    const spec = this.definition.resetWorldSettings?.[seedSetting];
    const isAny = spec?.dtype === "uint64" && spec.min === undefined && spec.max === undefined;
    if (!isAny || !settings.has(seedSetting)) {
      return settings;
    }
    return new Map(settings).set(seedSetting, pack(this.#nextSeed(), { dtype: "uint64" }));
  }

  #nextSeed(): bigint {
    return BigInt(this.#settings.random.integer(0, 2 ** 53 - 1));
  }

  destroy(done: Done<undefined>): void {
    const { name, definition } = this;
    const { time } = this.#options;
    const { drainDeadlineMs = 30_000 } = definition;
    const end = (): void => this.#end((world) => world.forceDestroy());
    try {
      const isNow = mayDestroyNow(name, definition, this.#worlds.size);
      this.#destroyers.push(() => done(undefined));
      this.#isDraining = true;
      if (isNow) {
        end();
      } else {
        this.#cancelDrainDeadline ??= time.after(drainDeadlineMs, end);
      }
    } catch (error) {
      done(clientError(error));
    }
  }

  destroyIfEmpty(): void {
    if (this.#worlds.size === 0) {
      this.destroyNow();
    }
  }

  drain(reason: DmEnvRpcError, done: () => void): void {
    this.#closing = reason;
    if (this.#worlds.size === 0) {
      done();
    }
    const over = afterAll(this.#worlds.size, done);
    for (const world of [...this.#worlds.values()]) {
      world.drain(reason, over);
    }
  }

  destroyNow(): void {
    this.#end((world) => world.destroyNow());
  }

  #end(destroy: (world: SharedWorld) => void): void {
    if (this.#isGone) {
      return;
    }
    this.#isGone = true;
    this.#cancelDrainDeadline?.();
    for (const world of [...this.#worlds.values()]) {
      destroy(world);
    }
    this.#options.emit({ kind: "gone", end: "destroyed" });
    for (const told of this.#destroyers.splice(0)) {
      told();
    }
  }
}

function tooManySlots(name: string, size: number, room: number): DmEnvRpcError {
  return new DmEnvRpcError(
    "RESOURCE_EXHAUSTED",
    `the world "${name}" has no room for a batch of ${size}: expected at most ${room} more slots; join with a smaller batch, or join another world (limit: maxSlotsPerWorld)`,
  );
}

/** Returns a function that calls `callback` when it is called for the `count`-th time. */
function afterAll(count: number, callback: () => void): () => void {
  let left = count;
  return () => {
    left -= 1;
    if (left === 0) {
      callback();
    }
  };
}
