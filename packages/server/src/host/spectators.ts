// SPDX-License-Identifier: Apache-2.0
import { create, type DescMessage, type MessageShape } from "@bufbuild/protobuf";
import type { ServiceImpl } from "@connectrpc/connect";
import {
  SpectatorService,
  type WatchWorldRequest,
  WatchWorldRequestSchema,
  type WatchWorldResponse,
  WatchWorldResponseSchema,
  type WatchWorldsRequest,
  WatchWorldsRequestSchema,
  type WorldInfo,
} from "@dm-env-rpc/protocol/spectator";
import { DmEnvRpcError, isDmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { type ByteCall, type ByteStream, peerOfCall } from "@dm-env-rpc/transport";
import {
  messageOf,
  NetworkCounts,
  pause,
  type RefusalCounts,
  ThreadShare,
  type TimeSource,
  type TurnKey,
  toConnectError,
  turnKeyOf,
} from "@dm-env-rpc/transport/internal";
import type { AgentId } from "../definition/agent.ts";
import { requireRole } from "../definition/roles.ts";
import { infoOf, summaryOf } from "../spectating/frames.ts";
import { LiveList, type WorldList } from "../spectating/live-list.ts";
import { LiveFrame, LiveWorld, maxRate } from "../spectating/live-world.ts";
import {
  binaryFormat,
  type MessageFormat,
  type SharedMessage,
} from "../spectating/shared-message.ts";
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
  readonly maxSpectatorsPerAddress: number;
  /** Counts the calls that `maxSpectatorsPerAddress` refuses. */
  readonly refusals: RefusalCounts;
  /** Shares the thread with the sessions of the server. */
  readonly share: ThreadShare;
  readonly time: TimeSource;
  readonly emit: Emit;
}

/** A caller that was admitted. */
interface Viewer {
  readonly key: TurnKey;
  /** Aborts when the viewer's call or the server ends. */
  readonly signal: AbortSignal;
  /** True if the viewer may also join worlds. */
  readonly canJoin: boolean;
}

type Call = Pick<ByteCall, "values" | "signal">;

/** The service of spectators. */
export interface Spectators {
  readonly service: ServiceImpl<typeof SpectatorService>;
  /**
   * The methods as bytes, by their paths, for the option `byteStreams` of a listener. Each list and
   * each frame is then encoded once for all viewers.
   */
  readonly byteStreams: ReadonlyMap<string, ByteStream>;
  /** Returns the same in another format, such as JSON for the option `jsonStreams` of a listener. */
  streamsIn(format: MessageFormat): ReadonlyMap<string, ByteStream>;
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
  maxSpectatorsPerAddress,
  refusals,
  share,
  time,
  emit,
}: SpectatorsOptions): ServedSpectators {
  const closed = new AbortController();
  const calls = new NetworkCounts();
  /**
   * One response in each turn: Connect encodes a response once for each viewer, after the task that counts it, so the time
   * of the encoding is not measured.
   */
  const connectShare = new ThreadShare(undefined, 1);
  /** Worlds with viewers, by name and agent. */
  const live = new Map<
    string,
    { readonly of: WatchedWorld; readonly frames: LiveWorld; viewers: number }
  >();
  const list = new LiveList({
    summaries: () =>
      worlds
        .watch()
        .slice(0, maxListed)
        .map(({ host, served }) => summaryOf(host, served.sequences)),
    worldCount: () => worlds.size,
    time,
  });

  const count = ({ values }: Call): Disposable => {
    const { address } = peerOfCall(values);
    if (calls.of(address) >= maxSpectatorsPerAddress) {
      refusals.count("maxSpectatorsPerAddress");
      throw new DmEnvRpcError(
        "RESOURCE_EXHAUSTED",
        `too many calls of spectators: expected at most ${maxSpectatorsPerAddress} at a time from one address, received one more; end some, or try again later (limit: maxSpectatorsPerAddress)`,
      );
    }
    const uncount = calls.add(address);
    return { [Symbol.dispose]: uncount };
  };

  const admit = async (call: Call): Promise<Viewer> => {
    const peer = peerOfCall(call.values);
    const roles = await new Promise<Parameters<Parameters<Admission>[1]>[0]>((resolve) =>
      admission(peer, resolve),
    );
    if (isDmEnvRpcError(roles)) {
      throw roles;
    }
    requireRole(roles, "spectator", "watch worlds");
    return {
      key: turnKeyOf(peer.address),
      signal: AbortSignal.any([call.signal, closed.signal]),
      canJoin: canJoinWithoutToken && roles.has("agent"),
    };
  };

  /** Shares the frames of a world among its viewers. */
  const view = (watched: WatchedWorld, agent: AgentId | undefined) => {
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
      share,
      time,
      onFault: (what, error) =>
        emit({ kind: "answer-failed", worldName: host.name, what: `"${what}"`, error }),
    });
  };

  async function* lists(request: WatchWorldsRequest, call: Call): AsyncGenerator<WorldList> {
    using _counted = await refusing(() => count(call));
    const { key, signal } = await refusing(() => admit(call));
    const periodMs = await refusing(() => periodOf(request.maxRate, listRate));
    while (!signal.aborted) {
      yield await share.run(key, () => list.current());
      await pause(time, periodMs, signal);
    }
  }

  async function* frames(request: WatchWorldRequest, call: Call): AsyncGenerator<LiveFrame> {
    using _counted = await refusing(() => count(call));
    const { key, signal, canJoin } = await refusing(() => admit(call));
    const { watched, periodMs } = await refusing(() => ({
      watched: find(worlds, request.world),
      periodMs: periodOf(request.maxRate, maxRate),
    }));
    const agent = request.agent === 0 ? undefined : (request.agent as AgentId);
    using viewed = await refusing(() => view(watched, agent));
    const next = viewed.frames.watch(signal, key.network);
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

  /** Yields the messages of responses for Connect, one in each turn of the event loop. */
  async function* messages<Desc extends DescMessage>(
    responses: AsyncIterable<SharedMessage<Desc>>,
    { values, signal }: Call,
  ): AsyncGenerator<MessageShape<Desc>> {
    const key = turnKeyOf(peerOfCall(values).address);
    for await (const { message } of responses) {
      await connectShare.run(key, () => {});
      yield message;
    }
    signal.throwIfAborted(); // The deadline has passed, or the caller has disconnected.
  }

  /** Sends responses as bytes. */
  const sendAll = async (
    responses: AsyncIterable<SharedMessage>,
    call: ByteCall,
    format: MessageFormat,
  ): Promise<void> => {
    const key = turnKeyOf(peerOfCall(call.values).address);
    for await (const response of responses) {
      // `drained` must be called in the task that has sent, or the call may drain before it is awaited.
      await share.run(key, () =>
        call.send(response.encoded(format)) ? undefined : call.drained(),
      );
    }
  };

  const streamsIn = (format: MessageFormat): ReadonlyMap<string, ByteStream> =>
    new Map<string, ByteStream>([
      [
        pathOf("watchWorlds"),
        async (bytes, call) => {
          const request = readRequest(WatchWorldsRequestSchema, bytes, format);
          await sendAll(lists(request, call), call, format);
        },
      ],
      [
        pathOf("watchWorld"),
        async (bytes, call) => {
          const request = readRequest(WatchWorldRequestSchema, bytes, format);
          await sendAll(frames(request, call), call, format);
        },
      ],
    ]);

  return {
    service: {
      watchWorlds: (request, call) => messages(lists(request, call), call),
      watchWorld: (request, call) => messages(frames(request, call), call),
    },
    byteStreams: streamsIn(binaryFormat),
    streamsIn,
    close: () => closed.abort(),
  };
}

function pathOf(method: keyof typeof SpectatorService.method): string {
  return `/${SpectatorService.typeName}/${SpectatorService.method[method].name}`;
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
function readRequest<Desc extends DescMessage>(
  schema: Desc,
  bytes: Uint8Array,
  format: MessageFormat,
): MessageShape<Desc> {
  try {
    return format.read(schema, bytes);
  } catch (cause) {
    throw new DmEnvRpcError(
      "INVALID_ARGUMENT",
      `request malformed: expected a ${schema.name}, received ${messageOf(cause)}`,
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
