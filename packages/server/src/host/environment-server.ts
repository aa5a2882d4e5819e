// SPDX-License-Identifier: Apache-2.0

import { DmEnvRpcError, isDmEnvRpcError, type Settings } from "@dm-env-rpc/tensor-codec";
import { packSettings, unpackTensor } from "@dm-env-rpc/tensor-codec/proto";
import type { ServerStream } from "@dm-env-rpc/transport";
import {
  LoopTurns,
  RefusalCounts,
  RequestRates,
  systemTime,
  ThreadShare,
  type TimeSource,
} from "@dm-env-rpc/transport/internal";
import { checkServer } from "../definition/definition-checks.ts";
import type { Extension } from "../definition/extension.ts";
import type { ObservationChecks } from "../definition/observation-checks.ts";
import type { PropertyTree } from "../definition/property.ts";
import type { WorldDefinition } from "../definition/world.ts";
import type { HostedWorld } from "../engine/hosted-world.ts";
import { EndBytes } from "../engine/saved-ends.ts";
import { nameOf } from "../properties/author-questions.ts";
import { serverProperties } from "../properties/built-in.ts";
import { createSideChannel } from "../properties/side-channel.ts";
import { JoinTurns } from "../session/join-turns.ts";
import { type Authorize, createAdmission } from "./authorize.ts";
import { createEmit, type ServerEvent } from "./events.ts";
import { createTakeSeat, type JoinToken } from "./join-tokens.ts";
import { limitsFrom, type ServerLimits } from "./limits.ts";
import type { ServedWorld } from "./served-worlds.ts";
import type { EnvironmentServerCounts } from "./server-counts.ts";
import { Sessions } from "./sessions.ts";
import { software } from "./software.ts";
import { createSpectators, type Spectators } from "./spectators.ts";
import { WorldRegistry } from "./world-registry.ts";

/** A world that exists from the start (behaviour 23). */
export interface PremadeWorld {
  /** Kind of the world. Default: the server's only one. */
  readonly type?: string | undefined;
  /** Settings of the create, nested or with dotted names. */
  readonly settings?: Settings | undefined;
}

/** Options of an environment server, with or without a network. */
export interface EnvironmentServerOptions {
  /** The kinds of world; if there are several, the create setting `world_type` selects one. */
  readonly worlds: readonly WorldDefinition[];
  /**
   * True for one world at a time, whose name is empty. Default false: many worlds, each with its
   * own name.
   */
  readonly singleWorld?: boolean | undefined;
  /** Worlds that exist from the start. */
  readonly premade?: readonly PremadeWorld[] | undefined;
  /** Properties of the server, in addition to the built-in `server`, `worlds` and `types`. */
  readonly properties?: PropertyTree | undefined;
  /** Extension messages that every connection may send. */
  readonly extensions?: readonly Extension[] | undefined;
  readonly limits?: Partial<ServerLimits> | undefined;
  /**
   * Checks of observations against the bounds of their specs; a violation fails the world. Default
   * `always`; `sampled` costs almost nothing with large observations.
   */
  readonly checkObservations?: ObservationChecks | undefined;
  /** Returns the roles of each connection. Default: every connection has all roles. */
  readonly authorize?: Authorize | undefined;
  /**
   * Reserves the seat for an agent's join token, or refuses the join; its time limit is that of a
   * world's join (limit `joinMs`). Default: agents join without a token.
   *
   * The join setting `join_token` is reserved for tokens and never passed to a world, even without
   * this option, so that an agent joins every server in the same way.
   */
  readonly joinToken?: JoinToken | undefined;
  /**
   * Receives events, for logs. Called synchronously, so it must be fast; the same events are
   * published on `node:diagnostics_channel` (see `channelName`).
   */
  readonly onEvent?: ((event: ServerEvent) => void) | undefined;
  /** Time source. Default: the machine's clock. */
  readonly time?: TimeSource | undefined;
  /**
   * Returns the seed of a world that is created without a seed. Default: from the machine's
   * entropy.
   */
  readonly randomSeed?: (() => bigint) | undefined;
}

/** Options of closing a server. */
export interface CloseOptions {
  /**
   * Milliseconds for agents to receive the ends of their sequences. Default 0: remaining streams
   * are cut off.
   */
  readonly graceMs?: number | undefined;
}

/** A server of worlds, to which streams can be connected. */
export interface EnvironmentServer extends AsyncDisposable {
  /** Accepts a stream of an agent or an operator. */
  accept(stream: ServerStream): void;
  /** The service for spectators, for a router; `serve` includes it. */
  readonly spectators: Spectators;
  /** Names of the current worlds. */
  worldNames(): readonly string[];
  /** The current worlds and their agents. */
  worlds(): readonly ServedWorld[];
  /** Number of open streams. */
  readonly sessionCount: number;
  /** Returns counts since the start, for metrics; takes time in proportion to the number of worlds. */
  counts(): EnvironmentServerCounts;
  /** Resolves when the premade worlds are created; `serve` awaits it. */
  readonly ready: Promise<void>;
  /**
   * Refuses new streams, worlds and joins, and cuts every sequence short: a RUNNING agent receives
   * INTERRUPTED, with its final observations, at its next step. A stream ends with UNAVAILABLE
   * once it has no undelivered end, and in any case after `graceMs`. Then every world is destroyed.
   *
   * Later calls return the same promise and may only shorten the grace period.
   */
  close(options?: CloseOptions): Promise<void>;
}

/**
 * Creates an environment server without a network; `serve` serves one on a port.
 *
 * @throws Error naming the mistake in a definition, an extension or a property, before clients are
 *   accepted.
 *
 * @example
 * const server = createEnvironmentServer({ worlds: [world] });
 * const [stream, accepted] = memoryStreamPair();
 * server.accept(accepted);
 * const connection = await connect({ stream });
 */
export function createEnvironmentServer(options: EnvironmentServerOptions): EnvironmentServer {
  const { authorize, joinToken, time = systemTime, extensions = [], properties = {} } = options;
  checkServer(extensions, properties);
  const canJoinWithoutToken = joinToken === undefined;
  const limits = limitsFrom(options.limits);
  const emit = createEmit(options.onEvent);
  // With a custom time source, no time passes within a turn of the event loop.
  const share = new ThreadShare(options.time === undefined ? undefined : new LoopTurns(() => 0));
  const refusals = new RefusalCounts();
  const registry = new WorldRegistry({
    definitions: options.worlds,
    singleWorld: options.singleWorld ?? false,
    limits,
    checkObservations: options.checkObservations ?? "always",
    share,
    endBytes: new EndBytes(limits.maxUndeliveredEndBytes, refusals),
    time,
    randomSeed: options.randomSeed ?? seedOfEntropy,
    emit,
  });
  const sideChannel = createSideChannel({
    properties: (mayList) => ({
      ...properties,
      ...serverProperties({
        ...software,
        definitions: options.worlds,
        worldNames: () => registry.names(),
        mayListWorlds: mayList,
      }),
    }),
    canJoinWithoutToken,
    extensions,
    limits,
    time,
    onFault: (worldName, question, error) =>
      emit({ kind: "answer-failed", worldName, what: nameOf(question), error }),
  });
  const { authorizeMs } = limits;
  const admission = createAdmission({ authorize, authorizeMs, refusals, time, emit });
  const spectators = createSpectators({
    worlds: registry,
    admission,
    canJoinWithoutToken,
    maxSpectatorsPerAddress: limits.maxSpectatorsPerAddress,
    refusals,
    share,
    time,
    emit,
  });
  const sessions = new Sessions({
    ...limits,
    worlds: registry,
    sideChannel,
    canJoinWithoutToken,
    share,
    joinTurns: new JoinTurns(share),
    rates: new RequestRates(limits.maxRequestsPerSecond, { refusals }),
    takeSeat: createTakeSeat({ joinToken, joinMs: limits.joinMs, time, emit }),
    admission,
    refusals,
    time,
    emit,
  });

  const cancels: (() => void)[] = [];
  let over = false;
  const shutDown = async (): Promise<void> => {
    const reason = new DmEnvRpcError(
      "UNAVAILABLE",
      "the server is shutting down; leave, and connect to another, or to this one later",
    );
    registry.drain(reason);
    sessions.drain(reason);
    await sessions.whenEmpty();
    over = true;
    for (const cancel of cancels) {
      cancel();
    }
    registry.destroyAll();
    spectators.close();
  };
  let closed: Promise<void> | undefined;
  let closingSinceMs = 0;
  const close = ({ graceMs = 0 }: CloseOptions = {}): Promise<void> => {
    if (closed === undefined) {
      emit({ kind: "server-closing", graceMs });
      closingSinceMs = time.now();
      closed = shutDown();
    }
    const cut = (): void => sessions.abort(cutOff(time.now() - closingSinceMs));
    if (over) {
      return closed;
    }
    if (graceMs > 0) {
      cancels.push(time.after(graceMs, cut));
    } else {
      cut();
    }
    return closed;
  };
  return {
    accept: (stream) => sessions.accept(stream),
    spectators,
    worldNames: () => registry.names(),
    worlds: () => registry.served(),
    get sessionCount() {
      return sessions.size;
    },
    counts: () => ({
      streams: sessions.size,
      types: registry.counts(),
      refusals: refusals.byLimit,
    }),
    ready: createAll(registry, options.premade ?? []),
    close,
    [Symbol.asyncDispose]: () => close(),
  };
}

function seedOfEntropy(): bigint {
  const [seed = 0n] = crypto.getRandomValues(new BigUint64Array(1));
  return seed;
}

/**
 * Creates the error of a stream that is still open after the grace period, which later calls of
 * `close` may have shortened.
 */
function cutOff(waitedMs: number): DmEnvRpcError {
  const waited = Math.round(waitedMs);
  return new DmEnvRpcError(
    "UNAVAILABLE",
    `the server is shutting down${waited > 0 ? ` and waited ${waited} ms` : ""}; connect to another, or to this one later`,
  );
}

async function createAll(registry: WorldRegistry, worlds: readonly PremadeWorld[]): Promise<void> {
  for (const { type, settings = {} } of worlds) {
    const all = type === undefined ? settings : { ...settings, world_type: type };
    const packed = Object.entries(packSettings(all)).map(
      ([name, message]) => [name, unpackTensor(message)] as const,
    );
    const result = await new Promise<HostedWorld | DmEnvRpcError>((resolve) => {
      registry.create(new Map(packed), resolve, true);
    });
    if (isDmEnvRpcError(result)) {
      throw result;
    }
  }
}
