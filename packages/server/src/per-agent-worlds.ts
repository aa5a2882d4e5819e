// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError, isDmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import type { Done, HostedWorld, Joined, PackedSettings } from "./hosted-world.ts";
import { type SeededRandom, seededRandom } from "./random.ts";
import { clientError } from "./responses.ts";
import type { Seat } from "./seat.ts";
import { readSettings } from "./settings.ts";
import type { UntypedWorldDefinition } from "./world.ts";
import { fullWorld, seedOf, WorldHost, type WorldHostOptions } from "./world-host.ts";

/**
 * A world whose agents share nothing but its name and settings: each that joins has
 * a world of its own, with a seed of its own, and one that fails is nobody else's concern.
 */
export class PerAgentWorlds implements HostedWorld {
  readonly name: string;
  readonly definition: UntypedWorldDefinition;
  readonly #options: WorldHostOptions;
  readonly #seeds: SeededRandom;
  readonly #maxAgents: number;
  /** The world of each agent; empty ones are on their way out. */
  readonly #worlds = new Set<WorldHost>();
  /** Those who asked for the end of the world, each of whom is answered when it has come. */
  readonly #destroyers: (() => void)[] = [];
  #draining: (() => void) | undefined;
  #cancelDrain: (() => void) | undefined;
  #gone = false;
  #closing: DmEnvRpcError | undefined;

  /** @throws DmEnvRpcError INVALID_ARGUMENT for bad settings. */
  constructor(options: WorldHostOptions) {
    const { definition } = options;
    const settings = readSettings(definition.settings ?? {}, options.settings, "create", false);
    const { agents = {} } = definition;
    const counts = typeof agents === "function" ? agents(settings as never) : agents;
    this.name = options.name;
    this.definition = definition;
    this.#options = options;
    this.#maxAgents = counts.max ?? 1000;
    this.#seeds = seededRandom(seedOf(settings) ?? options.randomSeed());
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
    if (this.#gone || this.#draining !== undefined) {
      done(this.#over());
      return;
    }
    const { size } = this.#worlds;
    const full = fullWorld(this.name, size, this.#maxAgents, this.#options.limits);
    if (full !== undefined) {
      done(full);
      return;
    }
    const host = this.#add();
    host.create((result) => {
      if (isDmEnvRpcError(result)) done(result);
      else host.join(settings, done);
      host.destroyWhenEmpty();
    });
  }

  #add(): WorldHost {
    const host: WorldHost = new WorldHost({
      ...this.#options,
      definition: { ...this.definition, agents: { min: 1, max: 1 } },
      observer: { ...this.#options.observer, emptied: () => {} },
      seed: BigInt(this.#seeds.integer(0, 2 ** 53 - 1)),
      onGone: () => {
        this.#worlds.delete(host);
        if (this.#worlds.size > 0) return;
        this.#options.observer.emptied();
        this.#draining?.();
      },
    });
    this.#worlds.add(host);
    return host;
  }

  resetWorld(caller: Seat | undefined, settings: PackedSettings, done: Done<undefined>): void {
    let left = this.#worlds.size;
    let failure: DmEnvRpcError | undefined;
    if (left === 0) {
      try {
        readSettings(this.definition.resetWorldSettings ?? {}, settings, "reset world", true);
        done(undefined);
      } catch (error) {
        done(clientError(error));
      }
      return;
    }
    for (const host of [...this.#worlds]) {
      const own = caller !== undefined && host.seats.has(caller) ? caller : undefined;
      host.resetWorld(own, settings, (result) => {
        if (isDmEnvRpcError(result)) failure = result;
        left -= 1;
        if (left === 0) done(failure);
      });
    }
  }

  destroy(done: Done<undefined>): void {
    const policy = this.definition.onDestroy ?? "refuse";
    const { size } = this.#worlds;
    if (size > 0 && policy === "refuse") {
      done(
        new DmEnvRpcError(
          "FAILED_PRECONDITION",
          `the world "${this.name}" has ${size} agents joined; have them leave first`,
        ),
      );
      return;
    }
    this.#destroyers.push(() => done(undefined));
    const finish = (): void => {
      if (!this.#gone) this.#end((host) => host.forceDestroy());
    };
    if (size === 0 || policy === "force") {
      finish();
      return;
    }
    if (this.#draining !== undefined) return;
    this.#draining = finish;
    this.#cancelDrain = this.#options.time.after(this.definition.drainDeadlineMs ?? 30_000, finish);
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
    if (!this.#gone) this.#end((host) => host.destroyNow());
  }

  #end(destroy: (host: WorldHost) => void): void {
    this.#gone = true;
    this.#cancelDrain?.();
    for (const host of [...this.#worlds]) destroy(host);
    this.#options.onGone("destroyed");
    for (const told of this.#destroyers.splice(0)) told();
  }

  #over(): DmEnvRpcError {
    return new DmEnvRpcError(
      "NOT_FOUND",
      `the world "${this.name}" was destroyed; leave it, and create or join another`,
    );
  }
}
