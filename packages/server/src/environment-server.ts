// SPDX-License-Identifier: Apache-2.0
import { randomBytes } from "node:crypto";
import {
  DmEnvRpcError,
  isDmEnvRpcError,
  packSettings,
  type Settings,
  unpackTensor,
} from "@dm-env-rpc/tensor-codec";
import type { ServerStream } from "@dm-env-rpc/transport";
import { createEmit, type ServerEvent } from "./events.ts";
import type { Extension } from "./extension.ts";
import type { HostedWorld } from "./hosted-world.ts";
import { limitsFrom, type ServerLimits } from "./limits.ts";
import { serverProperties } from "./properties/built-in.ts";
import type { PropertyTree } from "./properties/property.ts";
import { Session } from "./session.ts";
import { createSideChannel } from "./side-channel.ts";
import { software } from "./software.ts";
import { systemTime, type TimeSource } from "./time-source.ts";
import type { UntypedWorldDefinition } from "./world.ts";
import { WorldRegistry } from "./world-registry.ts";

/** A world that a server comes with (behaviour 23). */
export interface PremadeWorld {
  /** Which kind; the server's only one by default. */
  readonly type?: string;
  /** Settings of its create, nested or not. */
  readonly settings?: Settings;
}

/** How worlds are offered, with or without a network. */
export interface EnvironmentServerOptions {
  /** The kinds of world; where there are several, the create setting `world_type` chooses. */
  readonly worlds: readonly UntypedWorldDefinition[];
  /** One world at a time, with the empty name. Default false: many, each with a name of its own. */
  readonly singleWorld?: boolean;
  /** Worlds that are there from the start. */
  readonly premade?: readonly PremadeWorld[];
  /** Properties of the server, beside `server`, `worlds` and `types`, which every server has. */
  readonly properties?: PropertyTree;
  /** Extension messages that every connection may send. */
  readonly extensions?: readonly Extension[];
  readonly limits?: Partial<ServerLimits>;
  /** Told of what no client is told. */
  readonly onEvent?: (event: ServerEvent) => void;
  /** Default: the machine's time. */
  readonly time?: TimeSource;
  /** Seeds of worlds that are given none. Default: from the machine's entropy. */
  readonly randomSeed?: () => bigint;
}

/** Worlds that streams can be connected to. */
export interface EnvironmentServer extends AsyncDisposable {
  /** Takes over a stream: one agent, or whoever creates and destroys worlds. */
  accept(stream: ServerStream): void;
  /** Names of the worlds that there are. */
  worldNames(): readonly string[];
  /** Streams that are open. */
  readonly sessionCount: number;
  /** Makes the premade worlds; called by `serve`. */
  readonly ready: Promise<void>;
  /** Ends every stream. */
  close(): Promise<void>;
}

/** Makes an environment server without a network; `serve` puts one on a port. */
export function createEnvironmentServer(options: EnvironmentServerOptions): EnvironmentServer {
  const limits = limitsFrom(options.limits);
  const sessions = new Map<Session, ServerStream>();
  const registry = new WorldRegistry({
    definitions: options.worlds,
    singleWorld: options.singleWorld ?? false,
    limits,
    time: options.time ?? systemTime,
    randomSeed: options.randomSeed ?? (() => randomBytes(8).readBigUInt64LE()),
    emit: createEmit(options.onEvent),
  });
  const sideChannel = createSideChannel({
    properties: {
      ...options.properties,
      ...serverProperties({
        ...software,
        definitions: options.worlds,
        worldNames: () => registry.names(),
      }),
    },
    extensions: options.extensions ?? [],
  });
  const host = {
    registry,
    sideChannel,
    maxQueuedRequests: limits.maxQueuedRequests,
    onClosed: (session: Session) => {
      sessions.delete(session);
    },
  };
  const close = async (): Promise<void> => {
    for (const stream of sessions.values()) {
      stream.abort(
        new DmEnvRpcError("UNAVAILABLE", "the server is shutting down; connect again later"),
      );
    }
  };
  return {
    accept(stream) {
      const session = new Session(stream, host);
      sessions.set(session, stream);
      session.start();
    },
    worldNames: () => registry.names(),
    get sessionCount() {
      return sessions.size;
    },
    ready: createAll(registry, options.premade ?? []),
    close,
    [Symbol.asyncDispose]: close,
  };
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
    if (isDmEnvRpcError(result)) throw result;
  }
}
