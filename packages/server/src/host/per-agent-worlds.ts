// SPDX-License-Identifier: Apache-2.0
import { type DmEnvRpcError, isDmEnvRpcError, pack } from "@dm-env-rpc/tensor-codec";
import type { AgentId } from "../definition/agent.ts";
import { seedOf } from "../definition/seed.ts";
import { readSettings, seedSetting } from "../definition/settings.ts";
import type { UntypedWorldDefinition } from "../definition/world.ts";
import { Destroying, destroyedWorld } from "../engine/destroying.ts";
import { fullWorld } from "../engine/full-world.ts";
import type {
  Done,
  HostedWorld,
  HostOptions,
  Joined,
  PackedSettings,
} from "../engine/hosted-world.ts";
import { clientError } from "../engine/responses.ts";
import type { Seat } from "../engine/seat.ts";
import { WorldHost } from "../engine/world-host.ts";
import type { WorldObserver } from "../engine/world-observer.ts";
import { WorldSettings } from "../engine/world-settings.ts";

/**
 * A world whose agents share nothing but its name and settings: each that joins has
 * a world of its own, with a seed of its own, and one that fails is nobody else's concern.
 */
export class PerAgentWorlds implements HostedWorld {
  readonly name: string;
  readonly definition: UntypedWorldDefinition;
  readonly #options: HostOptions;
  /** Those of the create, with the source of seeds for each agent. */
  readonly #settings: WorldSettings;
  readonly #maxAgents: number;
  /** The world of each agent; empty ones are on their way out. */
  readonly #worlds = new Set<WorldHost>();
  #added = 0;
  readonly #destroying: Destroying<() => void>;
  #gone = false;
  #closing: DmEnvRpcError | undefined;

  /** @throws DmEnvRpcError INVALID_ARGUMENT for bad settings. */
  constructor(options: HostOptions) {
    const { name, definition, time } = options;
    this.#settings = new WorldSettings(options);
    this.name = name;
    this.definition = definition;
    this.#options = options;
    this.#maxAgents = this.#settings.counts.max;
    this.#destroying = new Destroying(this, {
      after: (delayMs, operation) => time.after(delayMs, operation),
      end: () => this.#end((host) => host.forceDestroy()),
    });
  }

  get agentCount(): number {
    return this.#worlds.size;
  }

  create(done: Done<undefined>): void {
    done(undefined);
  }

  join(settings: PackedSettings, done: Done<Joined>): void {
    if (this.#closing !== undefined) {
      done(this.#closing);
      return;
    }
    if (this.#gone || this.#destroying.isDraining) {
      done(destroyedWorld(this.name));
      return;
    }
    const { size } = this.#worlds;
    const full = fullWorld(this.name, size, this.#maxAgents, this.#options.limits);
    if (full !== undefined) {
      done(full);
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
    const host = this.#add(seed);
    host.create((result) => {
      if (isDmEnvRpcError(result)) done(result);
      else host.join(settings, done);
      host.destroyWhenEmpty();
    });
  }

  #add(seed: bigint | undefined): WorldHost {
    this.#added += 1;
    const derived = this.#nextSeed();
    const host: WorldHost = new WorldHost({
      ...this.#options,
      definition: { ...this.definition, agents: { min: 1, max: 1 } },
      observer: this.#observerOf(this.#added as AgentId),
      seed: seed ?? derived,
      onGone: () => {
        this.#worlds.delete(host);
        if (this.#worlds.size > 0) return;
        this.#options.observer.emptied();
        this.#destroying.agentLeft();
      },
    });
    this.#worlds.add(host);
    return host;
  }

  /** Tells of the only agent of a world by a number that no other has. */
  #observerOf(agent: AgentId): WorldObserver {
    const { observer } = this.#options;
    return {
      ...observer,
      agentJoined: () => observer.agentJoined(agent),
      agentLeft: (_only, reason) => observer.agentLeft(agent, reason),
      deadlineMissed: () => observer.deadlineMissed(agent),
      emptied: () => {},
    };
  }

  resetWorld(caller: Seat | undefined, settings: PackedSettings, done: Done<undefined>): void {
    let left = this.#worlds.size;
    let failure: DmEnvRpcError | undefined;
    try {
      this.#settings.reseed(
        readSettings(this.definition.resetWorldSettings ?? {}, settings, "reset world", true),
      );
    } catch (error) {
      done(clientError(error));
      return;
    }
    if (left === 0) done(undefined);
    for (const host of [...this.#worlds]) {
      const own = caller !== undefined && host.seats.has(caller) ? caller : undefined;
      host.resetWorld(own, this.#withOwnSeed(settings), (result) => {
        if (isDmEnvRpcError(result)) failure = result;
        left -= 1;
        if (left === 0) done(failure);
      });
    }
  }

  /** The settings of a reset of the world for one agent; a seed for all is another for each. */
  #withOwnSeed(settings: PackedSettings): PackedSettings {
    const spec = this.definition.resetWorldSettings?.[seedSetting];
    const isAny = spec?.dtype === "uint64" && spec.min === undefined && spec.max === undefined;
    if (!isAny || !settings.has(seedSetting)) return settings;
    return new Map(settings).set(seedSetting, pack(this.#nextSeed(), { dtype: "uint64" }));
  }

  #nextSeed(): bigint {
    return BigInt(this.#settings.random.integer(0, 2 ** 53 - 1));
  }

  destroy(done: Done<undefined>): void {
    try {
      this.#destroying.request(() => done(undefined));
    } catch (error) {
      done(clientError(error));
    }
  }

  destroyIfEmpty(): void {
    if (this.#worlds.size === 0) this.destroyNow();
  }

  drain(reason: DmEnvRpcError, done: () => void): void {
    this.#closing = reason;
    let left = this.#worlds.size;
    if (left === 0) done();
    for (const host of [...this.#worlds]) {
      host.drain(reason, () => {
        left -= 1;
        if (left === 0) done();
      });
    }
  }

  destroyNow(): void {
    this.#end((host) => host.destroyNow());
  }

  #end(destroy: (host: WorldHost) => void): void {
    if (this.#gone) return;
    this.#gone = true;
    this.#destroying.stop();
    for (const host of [...this.#worlds]) destroy(host);
    this.#options.onGone("destroyed");
    for (const told of this.#destroying.askers.splice(0)) told();
  }
}
