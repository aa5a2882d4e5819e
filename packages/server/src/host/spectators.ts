// SPDX-License-Identifier: Apache-2.0
import { create, fromBinary } from "@bufbuild/protobuf";
import type { ServiceImpl } from "@connectrpc/connect";
import {
  type SpectatorService,
  type WatchWorldRequest,
  WatchWorldRequestSchema,
  type WatchWorldResponse,
  WatchWorldResponseSchema,
  type WorldInfo,
} from "@dm-env-rpc/protocol/spectator";
import { DmEnvRpcError, isDmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { type ByteCall, type ByteStream, peerOfCall } from "@dm-env-rpc/transport";
import { messageOf, pause, type TimeSource, toConnectError } from "@dm-env-rpc/transport/internal";
import type { AgentId } from "../definition/agent.ts";
import { requireRole } from "../definition/roles.ts";
import { infoOf, summaryOf } from "../spectating/frames.ts";
import { LiveFrame, LiveWorld, maxRate } from "../spectating/live-world.ts";
import type { Admission } from "./authorize.ts";
import type { Emit } from "./events.ts";
import type { WatchedWorld, WorldRegistry } from "./world-registry.ts";

/** Maximum number of worlds in a list. */
const maxListed = 1_000;

/** Maximum number of agents of one world that are watched at a time; each has separate frames. */
const maxViews = 16;

/** Default rate of a list, in responses per second. */
const listRate = 1;

/** Options of `createSpectators`. */
export interface SpectatorsOptions {
  readonly worlds: Pick<WorldRegistry, "watch" | "watched" | "size">;
  readonly admission: Admission;
  /** True if agents join without a join token. */
  readonly canJoinWithoutToken: boolean;
  readonly time: TimeSource;
  readonly emit: Emit;
}

/** A caller that was admitted. */
interface Viewer {
  /** Aborts when the viewer's call or the server ends. */
  readonly signal: AbortSignal;
  /** True if the viewer may also join worlds. */
  readonly canJoin: boolean;
}

type Call = Pick<ByteCall, "values" | "signal">;

/** The service of spectators. */
export interface Spectators {
  readonly service: ServiceImpl<typeof SpectatorService>;
  /** WatchWorld as bytes, so that each frame is encoded once for all viewers. */
  readonly watchWorldBytes: ByteStream;
}

/** The service of spectators and its end. */
interface ServedSpectators extends Spectators {
  /** Ends every call. */
  close(): void;
}

/**
 * Creates the service for spectators (behaviour 75). It is read-only and needs no seat; agents
 * never wait for a viewer.
 */
export function createSpectators({
  worlds,
  admission,
  canJoinWithoutToken,
  time,
  emit,
}: SpectatorsOptions): ServedSpectators {
  const closed = new AbortController();
  /** Worlds with viewers, by name and agent. */
  const live = new Map<
    string,
    { readonly of: WatchedWorld; readonly frames: LiveWorld; viewers: number }
  >();

  const admit = async (call: Call): Promise<Viewer> => {
    const roles = await new Promise<Parameters<Parameters<Admission>[1]>[0]>((resolve) =>
      admission(peerOfCall(call.values), resolve),
    );
    if (isDmEnvRpcError(roles)) {
      throw roles;
    }
    requireRole(roles, "spectator", "watch worlds");
    return {
      signal: AbortSignal.any([call.signal, closed.signal]),
      canJoin: canJoinWithoutToken && roles.has("agent"),
    };
  };

  /** Shares the frames of a world among its viewers. */
  const share = (watched: WatchedWorld, agent: AgentId | undefined) => {
    const key = JSON.stringify([watched.host.name, agent]);
    const existing = live.get(key);
    const views = [...live.values()].filter(({ of }) => of === watched).length;
    if (existing?.of !== watched && views >= maxViews) {
      throw new DmEnvRpcError(
        "RESOURCE_EXHAUSTED",
        `too many watched agents: expected at most ${maxViews} in one world, received one more; watch an agent that others watch, or try again later`,
      );
    }
    const shared =
      existing?.of === watched
        ? existing
        : { of: watched, frames: framesOf(watched, agent), viewers: 0 };
    live.set(key, shared);
    shared.viewers += 1;
    return {
      frames: shared.frames,
      [Symbol.dispose]() {
        shared.viewers -= 1;
        if (shared.viewers === 0 && live.get(key) === shared) {
          live.delete(key);
        }
      },
    };
  };

  const framesOf = (watched: WatchedWorld, agent: AgentId | undefined): LiveWorld => {
    const { host, served } = watched;
    return new LiveWorld({
      world: host,
      agent,
      sequences: () => served.sequences,
      isGone: () => worlds.watched(host.name) !== watched,
      time,
      onFault: (what, error) =>
        emit({ kind: "answer-failed", worldName: host.name, what: `"${what}"`, error }),
    });
  };

  async function* frames(request: WatchWorldRequest, call: Call): AsyncGenerator<LiveFrame> {
    const { signal, canJoin } = await refusing(() => admit(call));
    const { watched, periodMs } = await refusing(() => ({
      watched: find(worlds, request.world),
      periodMs: periodOf(request.maxRate, maxRate),
    }));
    const agent = request.agent === 0 ? undefined : (request.agent as AgentId);
    using shared = await refusing(() => share(watched, agent));
    const next = shared.frames.watch(signal);
    let seen = await next(0);
    if (seen !== undefined) {
      yield new LiveFrame(seen.number, withInfo(seen.message, infoOf(watched.host, canJoin)));
    }
    while (seen !== undefined) {
      // LiveWorld already limits frames to `maxRate`; pausing here as well would halve that rate.
      if (periodMs > 1_000 / maxRate) {
        await pause(time, periodMs, signal);
      }
      seen = await next(seen.number);
      if (seen !== undefined) {
        yield seen;
      }
    }
  }

  return {
    service: {
      async *watchWorlds(request, context) {
        const { signal } = await refusing(() => admit(context));
        const periodMs = await refusing(() => periodOf(request.maxRate, listRate));
        while (!signal.aborted) {
          const summaries = worlds
            .watch()
            .slice(0, maxListed)
            .map(({ host, served }) => summaryOf(host, served.sequences));
          yield { timeMs: time.now(), worlds: summaries, worldCount: worlds.size };
          await pause(time, periodMs, signal);
        }
      },
      async *watchWorld(request, { values, signal }) {
        for await (const frame of frames(request, { values, signal })) {
          yield frame.message;
        }
      },
    },
    async watchWorldBytes(bytes, call) {
      for await (const frame of frames(readRequest(bytes), call)) {
        if (!call.send(frame.bytes)) {
          await call.drained();
        }
      }
    },
    close: () => closed.abort(),
  };
}

/** Maps errors to Connect codes. */
async function refusing<T>(run: () => T | Promise<T>): Promise<T> {
  try {
    return await run();
  } catch (error) {
    throw toConnectError(error);
  }
}

/** @throws DmEnvRpcError INVALID_ARGUMENT for bytes that are not a request. */
function readRequest(bytes: Uint8Array): WatchWorldRequest {
  try {
    return fromBinary(WatchWorldRequestSchema, bytes);
  } catch (cause) {
    throw new DmEnvRpcError(
      "INVALID_ARGUMENT",
      `request malformed: expected a WatchWorldRequest, received ${messageOf(cause)}`,
      { cause },
    );
  }
}

function withInfo(frame: WatchWorldResponse, info: WorldInfo): WatchWorldResponse {
  return create(WatchWorldResponseSchema, { ...frame, info });
}

/** @throws DmEnvRpcError NOT_FOUND if the world does not exist. */
function find(worlds: SpectatorsOptions["worlds"], name: string): WatchedWorld {
  const watched = worlds.watched(name);
  if (watched === undefined) {
    throw new DmEnvRpcError(
      "NOT_FOUND",
      `unknown world "${name.slice(0, 200)}"; WatchWorlds lists the current worlds`,
    );
  }
  return watched;
}

/** @throws DmEnvRpcError INVALID_ARGUMENT for an invalid rate. */
function periodOf(rate: number, byDefault: number): number {
  if (!(rate >= 0)) {
    throw new DmEnvRpcError(
      "INVALID_ARGUMENT",
      `max_rate is malformed: expected a number above 0, or 0 for ${byDefault}, received ${rate}`,
    );
  }
  return 1_000 / Math.min(maxRate, rate === 0 ? byDefault : rate);
}
