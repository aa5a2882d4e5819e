// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import {
  type JoinWorldRequest,
  JoinWorldResponseSchema,
  LeaveWorldResponseSchema,
} from "@dm-env-rpc/protocol";
import { type DmEnvRpcError, isDmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import type { Malformed, ProcessRequest, ProcessResponse } from "@dm-env-rpc/tensor-codec/wire";
import type { ServerStream, StreamReceiver } from "@dm-env-rpc/transport";
import type { Joined } from "../engine/hosted-world.ts";
import { kept } from "../engine/kept-request.ts";
import { answer, errorResponse } from "../engine/responses.ts";
import type { Seat } from "../engine/seat.ts";
import { unpackSettings } from "../engine/tensor-limits.ts";
import { checkRequest, type Roles } from "../host/authorize.ts";
import type { SideChannel } from "../properties/side-channel.ts";
import { type Admitted, type JoiningHost, joinedAlready, joinWorld, notJoined } from "./joining.ts";
import { workaroundFor } from "./official-client.ts";
import { publishAnswered, requestChannel } from "./request-metrics.ts";
import { RequestQueue } from "./request-queue.ts";
import { unanswerable } from "./unanswerable.ts";
import { handleWorldRequest, type WorldRequestsHost } from "./world-requests.ts";

type Request = ProcessRequest | Malformed;

/** What a session needs of its server. */
export interface SessionHost extends WorldRequestsHost, JoiningHost {
  readonly sideChannel: SideChannel;
  readonly maxQueuedRequests: number;
  readonly maxQueuedBytes: number;
  /** Told once, when the stream is gone and the agent has left. */
  readonly onClosed: (session: Session, error: Error | undefined) => void;
}

/**
 * One stream: its requests are taken one by one, in order, each answered exactly
 * once (overview.md). The stream is the agent: when it ends, the agent leaves.
 */
export class Session implements StreamReceiver<ProcessRequest> {
  readonly #stream: ServerStream;
  readonly #roles: Roles;
  readonly #host: SessionHost;
  readonly #queue: RequestQueue<Request>;
  #paused = false;
  /** Whether a request has been taken and not answered. */
  #busy = false;
  /** Whether the peer does not take what is sent. */
  #full = false;
  #pumping = false;
  #ended = false;
  #closed = false;
  /** Whether the stream ends as soon as nobody is owed anything. */
  #draining = false;
  /** What is being answered, and since when, while somebody measures. */
  #taken: readonly [Request["case"], number] | undefined;
  #finishing = false;
  /** How often in a row it was found idle. */
  #idle = 0;
  /** Where the agent is. */
  #place: Joined | undefined;
  readonly #workAround: ReturnType<typeof workaroundFor>;
  /** What it was taken out of; it says why, and keeps no world. */
  #lost: Seat | undefined;
  /** Gives up waiting for the seat of a join token. */
  #stopTaking = (): void => {};

  constructor(stream: ServerStream, roles: Roles, host: SessionHost) {
    this.#stream = stream;
    this.#workAround = workaroundFor(stream.peer);
    this.#roles = roles;
    this.#host = host;
    this.#queue = new RequestQueue(host);
  }

  /** Address of the peer. */
  get address(): string {
    return this.#stream.peer.address;
  }

  start(): void {
    this.#stream.start(this);
  }

  /** Ends the stream in good order, once the agent knows that its sequence is over. */
  drain(reason: DmEnvRpcError): void {
    this.#draining = true;
    if (this.#place === undefined) this.#pump();
    else this.#place.host.drain(reason, () => this.#pump());
  }

  /** Ends the stream at once. */
  abort(error: Error): void {
    this.#stream.abort(error);
  }

  /** How often in a row it was found, by this, to have joined nothing and asked nothing. */
  idleFor(): number {
    this.#idle = this.#busy || this.#place !== undefined ? 0 : this.#idle + 1;
    return this.#idle;
  }

  onMessage(message: Request, bytes: number): void {
    this.#idle = 0;
    if (!this.#busy && !this.#full && !this.#pumping && this.#queue.size === 0) {
      this.#pumping = true;
      this.#begin(message);
      this.#pumping = false;
      this.#rest();
      return;
    }
    this.#queue.add(kept(message), bytes);
    this.#pump();
    if (this.#queue.isFull && !this.#paused) {
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
    if (this.#closed) return;
    this.#closed = true;
    this.#queue.clear();
    this.#stopTaking();
    this.#leave(() => {});
    this.#host.onClosed(this, error);
  }

  /** Takes requests until one waits for its answer. */
  #pump(): void {
    if (this.#pumping) return;
    this.#pumping = true;
    while (!this.#busy && !this.#full) {
      const request = this.#queue.take();
      if (request === undefined) break;
      this.#begin(request);
    }
    this.#pumping = false;
    if (this.#queue.size > 0) return;
    if (this.#paused && !this.#closed) {
      this.#paused = false;
      this.#stream.resume();
    }
    this.#rest();
  }

  /** Everything that came has been taken: what is to end ends, unless an answer is owed. */
  #rest(): void {
    if (this.#busy || this.#closed) return;
    if (this.#ended) this.#finish();
    else if (this.#drained) this.#finishSoon();
  }

  /** What the peer had sent before it could know of the end is answered still. */
  #finishSoon(): void {
    if (this.#finishing) return;
    this.#finishing = true;
    setImmediate(() => {
      this.#finishing = false;
      if (!this.#busy && !this.#closed && this.#drained) this.#finish();
    });
  }

  get #drained(): boolean {
    const phase = this.#place?.seat.phase;
    return this.#draining && phase !== "running" && phase !== "owed";
  }

  /** Everything is answered: the agent leaves, then the stream ends. */
  #finish(): void {
    this.#ended = false;
    this.#draining = false;
    this.#busy = true;
    this.#leave(() => {
      if (!this.#closed) this.#stream.end();
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
    if (this.#taken !== undefined) publishAnswered(this.address, ...this.#taken, response);
    if (this.#closed) return;
    if (!this.#send(response)) this.#full = true;
    if (!this.#pumping) this.#pump();
  };

  #send(response: ProcessResponse): boolean {
    try {
      return this.#stream.send(this.#workAround?.(response) ?? response);
    } catch (error) {
      return this.#stream.send(errorResponse(error));
    }
  }

  #handle(request: Request): void {
    checkRequest(this.#roles, request.case);
    switch (request.case) {
      case "step": {
        const { host, seat } = this.#joined("step");
        host.step(seat, request.value, this.#reply);
        return;
      }
      case "createWorld":
      case "resetWorld":
      case "destroyWorld":
        handleWorldRequest(request, this.#host, this.#place, this.#reply);
        return;
      case "joinWorld":
        this.#join(request.value);
        return;
      case "reset": {
        const { host, seat } = this.#joined("reset");
        host.reset(seat, unpackSettings(request.value.settings, this.#host), this.#reply);
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
          .answer(request, this.#place?.host, this.#place?.seat, this.#roles)
          .then(this.#reply, (error: unknown) => this.#reply(errorResponse(error)));
    }
  }

  #joined(what: string): Joined {
    if (this.#place !== undefined) return this.#place;
    if (this.#lost?.gone !== undefined) throw this.#lost.gone;
    throw notJoined(what);
  }

  #join(request: JoinWorldRequest): void {
    if (this.#place !== undefined) throw joinedAlready(this.#place.host.name);
    this.#stopTaking = joinWorld(request, this.#host, this.#stream.peer, (result) => {
      if (!isDmEnvRpcError(result)) this.#enter(result);
      answer(this.#reply, result, ({ seat }) => ({
        case: "joinWorld",
        value: create(JoinWorldResponseSchema, { specs: seat.specs.message }),
      }));
    });
  }

  #enter({ host, seat, taken }: Admitted): void {
    this.#place = { host, seat };
    this.#lost = undefined;
    const leave = this.#closed ? taken.giveBack : taken.leave;
    seat.onLeft = () => {
      leave();
      if (this.#place?.seat === seat) this.#lose(seat);
    };
    if (this.#closed) this.#leave(() => {});
  }

  /** The agent was taken out: a world that has ended is kept by nobody. */
  #lose(seat: Seat): void {
    this.#place = undefined;
    this.#lost = seat;
    this.#stopTaking = () => {};
  }

  /** Leaves the world, if one is joined; otherwise it is a no-op. */
  #leave(done: (result: undefined | DmEnvRpcError) => void): void {
    const place = this.#place;
    this.#place = undefined;
    this.#lost = undefined;
    if (place === undefined) done(undefined);
    else place.host.leave(place.seat, done);
  }
}
