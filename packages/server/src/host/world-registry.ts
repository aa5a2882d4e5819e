// SPDX-License-Identifier: Apache-2.0

import { DmEnvRpcError, type PackedTensor, toValue, unpackFor } from "@dm-env-rpc/tensor-codec";
import type { ThreadShare, TimeSource } from "@dm-env-rpc/transport/internal";
import { shorten } from "@dm-env-rpc/transport/internal";
import { checkDefinitions } from "../definition/definition-checks.ts";
import type { ObservationChecks } from "../definition/observation-checks.ts";
import { worldTypeSetting } from "../definition/reserved-settings.ts";
import type { UntypedWorldDefinition } from "../definition/world.ts";
import type { HostedWorld, SpectatedWorld } from "../engine/hosted-world.ts";
import type { WorldEvent } from "../engine/outside.ts";
import type { Done, PackedSettings } from "../engine/requests.ts";
import type { EndBytes } from "../engine/saved-ends.ts";
import { WorldHost } from "../engine/world-host.ts";
import type { Worlds } from "../session/worlds.ts";
import type { Emit, WorldDestroyed } from "./events.ts";
import { createIdleTimer } from "./idle-timer.ts";
import type { ServerLimits } from "./limits.ts";
import { PerAgentWorlds } from "./per-agent-worlds.ts";
import type { ServedWorld } from "./served-worlds.ts";
import type { WorldTypeCounts } from "./server-counts.ts";
import { WorldTotals } from "./world-totals.ts";

/** Options of a registry. */
export interface WorldRegistryOptions {
  readonly definitions: readonly UntypedWorldDefinition[];
  /** True for one world at a time, whose name is empty. */
  readonly singleWorld: boolean;
  readonly limits: ServerLimits;
  readonly checkObservations: ObservationChecks;
  readonly share: ThreadShare;
  readonly endBytes: EndBytes;
  readonly time: TimeSource;
  readonly randomSeed: () => bigint;
  /** Reports events of worlds and of their agents. */
  readonly emit: Emit;
}

/** A created world as spectators and `worlds()` see it. */
export interface WatchedWorld {
  readonly host: SpectatedWorld;
  readonly served: ServedWorld;
}

/** The worlds of a server, by name. */
export class WorldRegistry implements Worlds {
  readonly #worlds = new Map<string, HostedWorld>();
  /** Created worlds. */
  readonly #served = new Map<string, WatchedWorld>();
  readonly #options: WorldRegistryOptions;
  readonly #totals: WorldTotals;
  /** The error of creates without room: one for all, because each new error costs a stack trace. */
  readonly #full: DmEnvRpcError;
  #created = 0;
  /** The error of creates once the server is closing. */
  #closing: DmEnvRpcError | undefined;

  /** @throws Error naming the fault of a definition. */
  constructor(options: WorldRegistryOptions) {
    checkDefinitions(options.definitions);
    this.#options = options;
    const { maxWorlds } = options.limits;
    this.#full = new DmEnvRpcError(
      "RESOURCE_EXHAUSTED",
      `this server has room for ${maxWorlds} worlds and all are in use; destroy one first (limit: maxWorlds)`,
    );
    this.#totals = new WorldTotals(options.definitions.map(({ name }) => name));
  }

  get size(): number {
    return this.#worlds.size;
  }

  names(): readonly string[] {
    return [...this.#worlds.keys()];
  }

  served(): readonly ServedWorld[] {
    return [...this.#served.values()].map(({ served }) => ({ ...served }));
  }

  /** Returns the counts of the worlds of each type. */
  counts(): readonly WorldTypeCounts[] {
    return this.#totals.with([...this.#served.values()]);
  }

  /** Returns the created worlds. */
  watch(): readonly WatchedWorld[] {
    return [...this.#served.values()];
  }

  /** Returns the created world with this name; the same object for as long as the world exists. */
  watched(name: string): WatchedWorld | undefined {
    return this.#served.get(name);
  }

  get(name: string, mayList: boolean): HostedWorld {
    const host = this.#worlds.get(name);
    if (host !== undefined) {
      return host;
    }
    const known = mayList ? this.#listed() : "check the name";
    throw new DmEnvRpcError("NOT_FOUND", `unknown world "${shorten(name)}"; ${known}`);
  }

  /** Returns the current worlds for an error. */
  #listed(): string {
    const names = this.names();
    if (names.length === 0) {
      return "the server has no worlds, create one first";
    }
    const first = names.slice(0, 16).map((known) => `"${known}"`);
    return `current worlds: ${first.join(", ")}${names.length > 16 ? ` and ${names.length - 16} more` : ""}`;
  }

  /**
   * Creates a world.
   *
   * @param premade True for a world that exists from the start. Such a world is never destroyed as
   * idle.
   * @throws DmEnvRpcError if there is no room for the world or a setting is invalid.
   */
  create(settings: PackedSettings, done: Done<HostedWorld>, premade = false): void {
    if (this.#closing !== undefined) {
      throw this.#closing;
    }
    const { singleWorld, limits } = this.#options;
    if (singleWorld && this.#worlds.size > 0) {
      throw new DmEnvRpcError(
        "ALREADY_EXISTS",
        "this server has one world at a time, which exists already; join it, or destroy it first",
      );
    }
    if (this.#worlds.size >= limits.maxWorlds) {
      throw this.#full;
    }
    // The world must not keep `done`, and with it the stream of its creator, in memory. As long as one closure of a function
    // exists, V8 keeps the variables that any of its closures uses. So the world's closures are created in another function.
    const { host, created } = this.#reserve(settings, premade);
    host.create((result) => {
      if (result === undefined) {
        created();
      }
      done(result ?? host);
    });
  }

  /** Creates the host of a world and reserves its name, before the author's `create`, which may return a promise. */
  #reserve(
    settings: PackedSettings,
    premade: boolean,
  ): { readonly host: HostedWorld; readonly created: () => void } {
    const { singleWorld, limits, emit } = this.#options;
    const rest = new Map(settings);
    const definition = this.#definition(rest);
    this.#created += 1;
    const worldName = singleWorld ? "" : `${definition.name}-${this.#created}`;
    const worldType = definition.name;
    const served = {
      name: worldName,
      type: worldType,
      agents: 0,
      joins: 0,
      sequences: 0,
      premade,
    };
    let why: WorldDestroyed["why"] = "requested";
    const idle = createIdleTimer(this.#options.time, premade ? 0 : limits.idleWorldMs, () => {
      why = "idle";
      host.destroyIfEmpty();
    });
    const report = (event: WorldEvent): void => {
      switch (event.kind) {
        case "agent-joined":
          idle.stop();
          why = "requested";
          served.agents += 1;
          served.joins += 1;
          this.#totals.count(worldType, "joins");
          emit({ ...event, worldName });
          return;
        case "agent-left":
          served.agents -= 1;
          emit({ kind: event.kind, worldName, agent: event.agent, error: event.reason });
          return;
        case "sequence-started":
          served.sequences += 1;
          this.#totals.count(worldType, "sequences");
          emit({ ...event, worldName });
          return;
        case "deadline-missed":
        case "ticks-missed":
        case "slots-failed":
          emit({ ...event, worldName });
          return;
        case "emptied":
          idle.start();
          return;
        case "failed":
          this.#totals.count(worldType, "failed");
          emit({ kind: "world-failed", worldName, worldType, error: event.error });
          return;
        case "gone":
          idle.stop();
          this.#worlds.delete(worldName);
          this.#served.delete(worldName);
          this.#totals.keep(worldType, host.counts);
          if (this.#closing !== undefined) {
            why = "closing";
          }
          if (event.end === "destroyed") {
            emit({ kind: "world-destroyed", worldName, worldType, why });
          }
      }
    };
    const options = {
      definition,
      name: worldName,
      settings: rest,
      randomSeed: this.#options.randomSeed,
      share: this.#options.share,
      endBytes: this.#options.endBytes,
      time: this.#options.time,
      limits,
      checkObservations: this.#options.checkObservations,
      emit: report,
    };
    const host: HostedWorld = definition.perAgent
      ? new PerAgentWorlds(options)
      : new WorldHost(options);
    this.#worlds.set(worldName, host);
    const created = (): void => {
      this.#served.set(worldName, { host, served });
      this.#totals.count(worldType, "created");
      emit({ kind: "world-created", worldName, worldType });
      idle.start();
    };
    return { host, created };
  }

  /** Refuses further creates; the current worlds refuse further agents and end their sequences. */
  drain(reason: DmEnvRpcError): void {
    this.#closing = reason;
    for (const host of this.#worlds.values()) {
      host.drain(reason, () => {});
    }
  }

  /** Destroys every world, with or without agents. */
  destroyAll(): void {
    for (const host of [...this.#worlds.values()]) {
      host.destroyNow();
    }
  }

  #definition(settings: Map<string, PackedTensor>): UntypedWorldDefinition {
    const { definitions } = this.#options;
    const names = definitions.map(({ name }) => name).join(", ");
    const packed = settings.get(worldTypeSetting);
    const [only] = definitions;
    if (packed === undefined) {
      if (only !== undefined && definitions.length === 1) {
        return only;
      }
      throw new DmEnvRpcError(
        "INVALID_ARGUMENT",
        `this server has several kinds of world; the create setting "${worldTypeSetting}" is required, one of: ${names}`,
      );
    }
    settings.delete(worldTypeSetting);
    const spec = { dtype: "string", shape: [] } as const;
    const wanted = toValue(unpackFor(packed, spec, worldTypeSetting), spec);
    const definition = definitions.find(({ name }) => name === wanted);
    if (definition !== undefined) {
      return definition;
    }
    throw new DmEnvRpcError(
      "INVALID_ARGUMENT",
      `unknown "${worldTypeSetting}" "${shorten(String(wanted))}"; expected one of: ${names}`,
    );
  }
}
