// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import {
  type JoinWorldRequest,
  JoinWorldResponseSchema,
  LeaveWorldResponseSchema,
} from "@dm-env-rpc/protocol";
import { type DmEnvRpcError, isDmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import type { Malformed, ProcessRequest, ProcessResponse } from "@dm-env-rpc/tensor-codec/wire";
import type { ServerStream, StreamReceiver, UnreadMessage } from "@dm-env-rpc/transport";
import {
  later,
  type Member,
  type RequestRates,
  type ThreadShare,
  type TurnKey,
  turnKeyOf,
} from "@dm-env-rpc/transport/internal";
import { everyRole, type Roles } from "../definition/roles.ts";
import type { Reply } from "../engine/requests.ts";
import { answer, errorResponse, sharedErrorResponse } from "../engine/responses.ts";
import { unpackSettings } from "../engine/tensor-limits.ts";
import type { SideChannel } from "../properties/side-channel.ts";
import { type Admitted, type JoiningHost, joinedAlready, joinWorld, notJoined } from "./joining.ts";
import { mayHaveSpecs, workaroundFor } from "./official-client.ts";
import type { Place } from "./place.ts";
import { publishAnswered, requestChannel } from "./request-metrics.ts";
import { type QueueLimits, RequestQueue } from "./request-queue.ts";
import { checkRequest } from "./request-roles.ts";
import type { TakenSeat } from "./seat-tokens.ts";
import { StreamSpans, type TracedRequest } from "./stream-spans.ts";
import { unanswerable } from "./unanswerable.ts";
import { handleWorldRequest, type WorldRequestsHost } from "./world-requests.ts";

type Request = ProcessRequest | Malformed;

/**
 * Maximum size in bytes and first byte of a message that is decoded on arrival, in case it is a LeaveWorldRequest:
 * a leave may overtake earlier requests. An empty LeaveWorldRequest has 2 bytes.
 */
const maxLeaveBytes = 16;
const leaveTag = 0x32;

/** The server, as a session uses it. */
export interface SessionHost extends WorldRequestsHost, JoiningHost, QueueLimits {
  readonly sideChannel: SideChannel;
  readonly share: ThreadShare;
  /** Rates of requests other than steps and leaves. */
  readonly rates: RequestRates;
  /** Called once, when the stream is closed and its agents have left or their seat is held. */
  readonly onClosed: (session: Session, error: Error | undefined) => void;
}

/**
 * One stream: processes its requests one by one, in order, and answers each exactly once
 * (behaviours 2, 3). When the stream ends, its agents leave or their seat is held.
 */
export class Session implements StreamReceiver<ProcessRequest>, Member {
  index = -1;
  /** Stops counting the stream. */
  readonly uncount: () => void;
  readonly #stream: ServerStream;
  readonly #roles: Roles;
  readonly #host: SessionHost;
  readonly #queue: RequestQueue;
  readonly #share: ThreadShare;
  readonly #turnKey: TurnKey;
  /** True while the session waits for a later turn. */
  #waiting = false;
  #paused = false;
  /** True while a request is unanswered. */
  #busy = false;
  /** True while the stream cannot accept responses, until `onDrain`. */
  #full = false;
  #pumping = false;
  /** Number of leaves in the queue. */
  #leaves = 0;
  #ended = false;
  #closed = false;
  /** The status of a draining stream, which ends once its agent has received its sequence's end. */
  #draining: DmEnvRpcError | undefined;
  /** Kind of the current request and its start, while `requestChannel` has subscribers. */
  #taken: readonly [Request["case"], number] | undefined;
  #finishing = false;
  readonly #spans: StreamSpans;
  /** Number of consecutive `idleFor` calls that found the stream idle. */
  #idle = 0;
  #place: Place | undefined;
  /** The error with which the agent was removed from its world. */
  #lost: DmEnvRpcError | undefined;
  /** Stops waiting for the seat of a join token. */
  #stopTaking = (): void => {};
  /** Calls `hold` of the join token's seat. */
  #holdSeat = (): void => {};

  /** @param uncount Called when the stream has closed. */
  constructor(stream: ServerStream, roles: Roles, host: SessionHost, uncount: () => void) {
    this.uncount = uncount;
    this.#stream = stream;
    this.#roles = roles;
    this.#host = host;
    this.#queue = new RequestQueue(host);
    this.#share = host.share;
    this.#turnKey = turnKeyOf(stream.peer.address);
    this.#spans = new StreamSpans(stream.peer);
  }

  /** Address of the peer. */
  get address(): string {
    return this.#stream.peer.address;
  }

  start(): void {
    this.#stream.start(this);
  }

  /** Ends the stream once the agent has received the end of its sequence. */
  drain(reason: DmEnvRpcError): void {
    this.#draining = reason;
    if (this.#place === undefined) {
      this.#pump();
    } else {
      this.#place.world.drain(reason, () => this.#pump());
    }
  }

  /** Ends the stream immediately. */
  abort(error: Error): void {
    this.#stream.abort(error);
  }

  /**
   * Returns the number of consecutive calls that found the stream without a joined world and
   * without requests.
   */
  idleFor(): number {
    this.#idle = this.#busy || this.#place !== undefined ? 0 : this.#idle + 1;
    return this.#idle;
  }

  /**
   * True while an earlier request is unanswered, or other sessions have their turn. Requests then
   * wait as bytes, and are decoded in their turn.
   */
  get takesUnread(): boolean {
    return this.#busy || this.#full || this.#pumping || this.#queue.size > 0 || this.#share.isOver;
  }

  get queuedBytes(): number {
    return this.#queue.heldBytes;
  }

  onMessage(message: Request): void {
    this.#idle = 0;
    this.#pumping = true;
    this.#begin(message);
    this.#pumping = false;
    this.#rest();
  }

  onUnread(message: UnreadMessage<ProcessRequest>): void {
    this.#idle = 0;
    this.#queue.add(message);
    if (mayBeLeave(message) && message.read().case === "leaveWorld") {
      this.#leaves += 1;
      this.#letOut();
    }
    this.#pump();
    // Only an unanswered request is worth reading ahead: a later leave ends its wait.
    const isAhead = this.#busy ? this.#queue.isFull : this.#queue.size > 0;
    if (isAhead && !this.#paused) {
      this.#paused = true;
      this.#stream.pause();
    }
  }

  onEnd(): void {
    this.#ended = true;
    this.#pump();
  }

  onDrain(): void {
    this.#full = false;
    this.#pump();
  }

  onClose(error: Error | undefined): void {
    if (this.#closed) {
      return;
    }
    this.#closed = true;
    this.#queue.clear();
    this.#leaves = 0;
    this.#stopTaking();
    if (error === undefined) {
      this.#leave(() => {});
    } else {
      this.#drop();
    }
    this.#spans.end(error);
    this.#host.onClosed(this, error);
  }

  /** Processes requests until one is unanswered. */
  #pump(): void {
    if (this.#pumping) {
      return;
    }
    this.#pumping = true;
    while (!this.#busy && !this.#full) {
      if (this.#share.isOver && this.#queue.size > 0) {
        this.#waitTurn();
        break;
      }
      const unread = this.#queue.take();
      if (unread === undefined) {
        break;
      }
      const request = unread.read();
      if (mayBeLeave(unread) && request.case === "leaveWorld") {
        this.#leaves -= 1;
      }
      this.#begin(request);
      this.#letOut();
    }
    this.#pumping = false;
    if (this.#queue.size > 0) {
      return;
    }
    if (this.#paused && !this.#closed && !this.#full) {
      this.#paused = false;
      this.#stream.resume();
    }
    this.#rest();
  }

  /** Continues in a later turn of the event loop, after sessions that have waited longer. */
  #waitTurn(): void {
    if (this.#waiting) {
      return;
    }
    this.#waiting = true;
    this.#share.wait(this.#turnKey, this.#onTurn);
  }

  readonly #onTurn = (): void => {
    this.#waiting = false;
    this.#pump();
  };

  /** Lets a leave take effect although an earlier request waits for other agents (behaviour 67). */
  #letOut(): void {
    if (this.#busy && this.#leaves > 0) {
      this.#place?.leaveIfWaiting();
    }
  }

  /**
   * Ends the stream once the queue is empty and every request is answered, if the peer has ended or
   * the stream is draining.
   */
  #rest(): void {
    if (this.#busy || this.#closed) {
      return;
    }
    if (this.#ended) {
      this.#finish(undefined);
    } else if (this.#drained) {
      this.#finishSoon();
    }
  }

  /**
   * Ends the stream after the requests that have arrived are answered; further requests may be in
   * flight.
   */
  #finishSoon(): void {
    if (this.#finishing) {
      return;
    }
    this.#finishing = true;
    later(() => {
      this.#finishing = false;
      if (!this.#busy && !this.#closed && this.#drained) {
        this.#finish(this.#draining);
      }
    });
  }

  get #drained(): boolean {
    return this.#draining !== undefined && (this.#place === undefined || !this.#place.expectsEnd);
  }

  /** Leaves the world, then ends the stream; called when every request that has arrived is answered. */
  #finish(status: DmEnvRpcError | undefined): void {
    this.#ended = false;
    this.#draining = undefined;
    this.#busy = true;
    this.#leave(() => {
      if (!this.#closed) {
        this.#stream.end(status);
      }
    });
  }

  #begin(request: Request): void {
    this.#busy = true;
    this.#taken = requestChannel.hasSubscribers ? [request.case, performance.now()] : undefined;
    try {
      this.#handle(request);
    } catch (error) {
      this.#reply(errorResponse(error));
    }
  }

  readonly #reply = (response: ProcessResponse): void => {
    this.#busy = false;
    if (this.#taken !== undefined) {
      publishAnswered(this.address, ...this.#taken, response);
    }
    if (this.#closed) {
      return;
    }
    if (!this.#send(response)) {
      this.#full = true;
    }
    if (!this.#pumping) {
      this.#pump();
    }
  };

  #send(response: ProcessResponse): boolean {
    try {
      // The peer's metadata, which is read here, is built on first access.
      const workAround = mayHaveSpecs(response) ? workaroundFor(this.#stream.peer) : undefined;
      return this.#stream.send(workAround?.(response) ?? response);
    } catch (error) {
      return this.#stream.send(errorResponse(error));
    }
  }

  #handle(request: Request): void {
    if (request.case === "step") {
      this.#share.countStep();
    } else {
      this.#share.count();
      const refusal = this.#rateRefusal(request.case);
      if (refusal !== undefined) {
        this.#reply(sharedErrorResponse(refusal)); // Not thrown, because a flood has thousands of them.
        return;
      }
    }
    checkRequest(this.#roles, request.case);
    switch (request.case) {
      case "step": {
        this.#joined("step").step(request.value, this.#reply);
        return;
      }
      case "createWorld":
      case "resetWorld":
      case "destroyWorld":
      case "joinWorld":
        this.#handleTraced(request);
        return;
      case "reset": {
        const place = this.#joined("reset");
        place.reset(unpackSettings(request.value.settings, this.#host), this.#reply);
        return;
      }
      case "leaveWorld":
        this.#leave((result) =>
          answer(this.#reply, result, () => ({
            case: "leaveWorld",
            value: create(LeaveWorldResponseSchema),
          })),
        );
        return;
      case "malformed":
      case undefined:
        throw unanswerable(request);
      default:
        this.#host.sideChannel
          .answer(request, this.#place?.world, this.#place?.seats[0]?.agent, this.#roles)
          .then(this.#reply, (error: unknown) => this.#reply(errorResponse(error)));
    }
  }

  /** Handles a request within a span, which ends with its response. */
  #handleTraced(request: TracedRequest): void {
    this.#spans.request(request);
    const reply: Reply = (response) => {
      this.#spans.answered(response);
      this.#reply(response);
    };
    try {
      if (request.case === "joinWorld") {
        this.#join(request.value, reply);
      } else {
        handleWorldRequest(request, this.#host, this.#place, reply);
      }
    } catch (error) {
      reply(errorResponse(error));
    }
  }

  /** Returns RESOURCE_EXHAUSTED if the peer's address sends too many requests. */
  #rateRefusal(kind: Request["case"]): DmEnvRpcError | undefined {
    const isTrusted = this.#roles !== everyRole && this.#roles.has("operator");
    return kind === "leaveWorld" || isTrusted
      ? undefined
      : this.#host.rates.refusalOf(this.#turnKey.network);
  }

  #joined(what: keyof typeof notJoined): Place {
    if (this.#place !== undefined) {
      return this.#place;
    }
    throw this.#lost ?? notJoined[what];
  }

  #join(request: JoinWorldRequest, reply: Reply): void {
    if (this.#place !== undefined) {
      throw joinedAlready(this.#place.world.name);
    }
    let leaveSeat = (): void => {};
    this.#stopTaking = joinWorld(request, this.#host, this.#stream.peer, this.#roles, {
      done: (result) => {
        if (!isDmEnvRpcError(result)) {
          const { place, taken } = result;
          // An agent that has resumed its seat has joined before, even if this stream is lost.
          const hasJoined = !this.#closed || place.isResumed;
          leaveSeat = hasJoined ? taken.leave : taken.giveBack;
          // Does not capture `result`, which would keep the world alive.
          this.#holdSeat = holderOf(taken);
          this.#spans.link(taken.traceparent);
          this.#enter(result);
        }
        answer(reply, result, ({ place }) => ({
          case: "joinWorld",
          value: create(JoinWorldResponseSchema, { specs: place.specs }),
        }));
      },
      onLeft: (reason) => {
        leaveSeat();
        this.#lose(reason);
      },
      isWanted: () => !this.#closed,
    });
  }

  #enter({ place }: Admitted): void {
    this.#place = place;
    this.#lost = undefined;
    if (!this.#closed) {
      return;
    }
    if (place.isResumed) {
      this.#drop();
    } else {
      this.#leave(() => {});
    }
  }

  /** Releases the world after its agent has left, so that the session does not keep it alive. */
  #lose(reason: DmEnvRpcError | undefined): void {
    if (this.#place === undefined) {
      return;
    }
    this.#place = undefined;
    this.#lost = reason;
    this.#stopTaking = () => {};
    this.#holdSeat = () => {};
  }

  /** Handles a lost stream: the world holds or releases the agent's seat. */
  #drop(): void {
    const place = this.#place;
    this.#place = undefined;
    place?.drop(() => this.#holdSeat());
  }

  /** Leaves the world, if one is joined; otherwise it is a no-op. */
  #leave(done: (result: undefined | DmEnvRpcError) => void): void {
    const place = this.#place;
    this.#place = undefined;
    this.#lost = undefined;
    if (place === undefined) {
      done(undefined);
    } else {
      place.leave(done);
    }
  }
}

function mayBeLeave({ size, firstByte }: UnreadMessage<ProcessRequest>): boolean {
  return size <= maxLeaveBytes && firstByte === leaveTag;
}

/** Returns a function that calls `hold` of a join token's seat. */
function holderOf(taken: TakenSeat): () => void {
  return () => taken.hold?.();
}
