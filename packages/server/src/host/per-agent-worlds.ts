// SPDX-License-Identifier: Apache-2.0
import { type DmEnvRpcError, isDmEnvRpcError, pack } from "@dm-env-rpc/tensor-codec";
import type { AgentId } from "../definition/agent.ts";
import { seedOf } from "../definition/seed.ts";
import { readSettings, seedSetting } from "../definition/settings.ts";
import type { UntypedWorld, UntypedWorldDefinition } from "../definition/world.ts";
import { destroyedWorld, mayDestroyNow } from "../engine/destroy-policy.ts";
import { fullWorld } from "../engine/full-world.ts";
import type {
  HostedWorld,
  HostOptions,
  Joined,
  SpectatedAgent,
  WorldCounts,
} from "../engine/hosted-world.ts";
import type { Cancel, WorldEvent } from "../engine/outside.ts";
import type { Done, PackedSettings } from "../engine/requests.ts";
import { clientError } from "../engine/responses.ts";
import type { Seat } from "../engine/state.ts";
import { WorldHost } from "../engine/world-host.ts";
import { WorldSettings } from "../engine/world-settings.ts";

/**
 * A world whose agents share its name and settings and nothing else: each that joins has
 * a world of its own, with a seed of its own, whose failure ends that world alone.
 */
export class PerAgentWorlds implements HostedWorld {
  readonly name: string;
  readonly definition: UntypedWorldDefinition;
  readonly #options: HostOptions;
  /** Settings of the create, with the random source that each agent's seed is derived from. */
  readonly #settings: WorldSettings;
  readonly #maxAgents: number;
  /** The world of each agent, by the number that events give the agent. */
  readonly #worlds = new Map<AgentId, WorldHost>();
  #lastAgent = 0;
  /** Counts of the worlds whose agents have left. */
  #past: WorldCounts = noCounts;
  /** The callers of destroys that wait for the agents to leave. */
  readonly #destroyers: (() => void)[] = [];
  #isDraining = false;
  #cancelDrainDeadline: Cancel | undefined;
  #closing: DmEnvRpcError | undefined;
  #isGone = false;

  /** @throws DmEnvRpcError, TensorError if a setting is missing, unknown or bad. */
  constructor(options: HostOptions) {
    const { name, definition } = options;
    this.#settings = new WorldSettings(options);
    this.name = name;
    this.definition = definition;
    this.#options = options;
    this.#maxAgents = this.#settings.counts.max;
  }

  get agentCount(): number {
    return this.#worlds.size;
  }

  get counts(): WorldCounts {
    return [...this.#worlds.values()].reduce((sum, { counts }) => added(sum, counts), this.#past);
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

  join(settings: PackedSettings, onLeft: Seat["onLeft"], done: Done<Joined>): void {
    const refusal = this.#joinRefusal();
    if (refusal !== undefined) {
      done(refusal);
      return;
    }
    let seed: bigint | undefined;
    try {
      const { joinSettings = {} } = this.definition;
      seed = seedOf(readSettings(joinSettings, settings, "join", false));
    } catch (error) {
      done(clientError(error));
      return;
    }
    const world = this.#add(seed);
    world.create((result) => {
      if (isDmEnvRpcError(result)) {
        done(result);
      } else {
        world.join(settings, onLeft, done);
      }
      world.destroyWhenEmpty();
    });
  }

  #joinRefusal(): DmEnvRpcError | undefined {
    if (this.#closing !== undefined) {
      return this.#closing;
    }
    if (this.#isGone || this.#isDraining) {
      return destroyedWorld(this.name);
    }
    const { maxAgentsPerWorld } = this.#options.limits;
    return fullWorld(this.name, this.#worlds.size, this.#maxAgents, maxAgentsPerWorld);
  }

  /** @param seed The seed of the join; by default the next that is derived from the create's. */
  #add(seed: bigint | undefined): WorldHost {
    const derived = this.#nextSeed();
    this.#lastAgent += 1;
    const agent = this.#lastAgent as AgentId;
    const world = new WorldHost({
      ...this.#options,
      definition: { ...this.definition, agents: { min: 1, max: 1 } },
      seed: seed ?? derived,
      emit: (event) => this.#report(agent, event),
    });
    this.#worlds.set(agent, world);
    return world;
  }

  /** Reports an event of one agent's world as one of this world, with the agent's number here. */
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
      case "failed":
        emit(event);
        return;
      case "gone":
        this.#past = added(this.#past, this.#worlds.get(agent)?.counts ?? noCounts);
        this.#worlds.delete(agent);
        if (this.#worlds.size > 0) {
          return;
        }
        emit({ kind: "emptied" });
        if (this.#isDraining) {
          this.#end((world) => world.forceDestroy());
        }
    }
  }

  resetWorld(
    caller: Readonly<Seat> | undefined,
    settings: PackedSettings,
    done: Done<undefined>,
  ): void {
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
      const isOwn = caller !== undefined && world.state.seats.get(caller.agent) === caller;
      world.resetWorld(isOwn ? caller : undefined, this.#withOwnSeed(settings), (result) => {
        if (isDmEnvRpcError(result)) {
          failure = result;
        }
        over();
      });
    }
  }

  /** The settings of a reset of the world for one agent, whose seed is derived from the one for all. */
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

  #end(destroy: (world: WorldHost) => void): void {
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

const noCounts: WorldCounts = {
  ticks: 0,
  steps: 0,
  returns: 0,
  returnSum: 0,
  missedDeadlines: 0,
  missedTicks: 0,
  changes: 0,
};

function added(a: WorldCounts, b: WorldCounts): WorldCounts {
  return {
    ticks: a.ticks + b.ticks,
    steps: a.steps + b.steps,
    returns: a.returns + b.returns,
    returnSum: a.returnSum + b.returnSum,
    missedDeadlines: a.missedDeadlines + b.missedDeadlines,
    missedTicks: a.missedTicks + b.missedTicks,
    changes: a.changes + b.changes + 1,
  };
}

/** A function that calls back at its call number `count`. */
function afterAll(count: number, callback: () => void): () => void {
  let left = count;
  return () => {
    left -= 1;
    if (left === 0) {
      callback();
    }
  };
}
