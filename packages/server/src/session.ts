// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import {
  CreateWorldResponseSchema,
  DestroyWorldResponseSchema,
  JoinWorldResponseSchema,
  LeaveWorldResponseSchema,
  ResetWorldResponseSchema,
  type Tensor as TensorMessage,
} from "@dm-env-rpc/protocol";
import {
  DmEnvRpcError,
  isDmEnvRpcError,
  isTensorError,
  type Malformed,
  type ProcessRequest,
  type ProcessResponse,
} from "@dm-env-rpc/tensor-codec";
import type { ServerStream, StreamReceiver } from "@dm-env-rpc/transport";
import { checkRequest, type Roles } from "./authorize.ts";
import type { Joined, PackedSettings } from "./hosted-world.ts";
import { joinTokenSetting, shownToken, type TakenSeat, type TakeSeat } from "./join-tokens.ts";
import { publishAnswered, requestChannel } from "./request-metrics.ts";
import { errorResponse } from "./responses.ts";
import type { Seat } from "./seat.ts";
import type { SideChannel } from "./side-channel.ts";
import { type TensorLimits, unpackSettings } from "./tensor-limits.ts";
import type { WorldHost } from "./world-host.ts";
import type { WorldRegistry } from "./world-registry.ts";

type Request = ProcessRequest | Malformed;

/** What a session needs of its server. */
export interface SessionHost extends TensorLimits {
  readonly registry: WorldRegistry;
  readonly sideChannel: SideChannel;
  readonly takeSeat: TakeSeat;
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
  /** Requests that came and are not taken yet; the first is at `#next`. */
  #queue: Request[] = [];
  #next = 0;
  /** Bytes of the requests that were queued since the queue was empty. */
  #queuedBytes = 0;
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
  /** Undefined again as soon as the agent is out of it: a world that has ended is kept by nobody. */
  #world: WorldHost | undefined;
  /** Kept until another world is joined: it says why the agent is out. */
  #seat: Seat | undefined;
  /** Gives up waiting for the seat of a join token. */
  #stopTaking = (): void => {};

  constructor(stream: ServerStream, roles: Roles, host: SessionHost) {
    this.#stream = stream;
    this.#roles = roles;
    this.#host = host;
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
    if (this.#world === undefined) this.#pump();
    else this.#world.drain(reason, () => this.#pump());
  }

  /** Ends the stream at once. */
  abort(error: Error): void {
    this.#stream.abort(error);
  }

  /** How often in a row it was found, by this, to have joined nothing and asked nothing. */
  idleFor(): number {
    this.#idle = this.#busy || this.#world !== undefined ? 0 : this.#idle + 1;
    return this.#idle;
  }

  onMessage(message: Request, bytes: number): void {
    this.#idle = 0;
    if (this.#isFree && this.#queue.length === 0) {
      this.#pumping = true;
      this.#begin(message);
      this.#pumping = false;
      this.#rest();
      return;
    }
    this.#queue.push(message);
    this.#queuedBytes += bytes;
    this.#pump();
    if (this.#isQueueFull && !this.#paused) {
      this.#paused = true;
      this.#stream.pause();
    }
  }

  get #isQueueFull(): boolean {
    const { maxQueuedRequests, maxQueuedBytes } = this.#host;
    const queued = this.#queue.length - this.#next;
    return queued >= maxQueuedRequests || (queued > 0 && this.#queuedBytes >= maxQueuedBytes);
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
    this.#queue = [];
    this.#next = 0;
    this.#stopTaking();
    this.#leave(() => {});
    this.#host.onClosed(this, error);
  }

  /** Takes requests until one waits for its answer. */
  #pump(): void {
    if (this.#pumping) return;
    this.#pumping = true;
    while (!this.#busy && !this.#full && this.#next < this.#queue.length) {
      const request = this.#queue[this.#next] as Request;
      this.#next += 1;
      this.#begin(request);
    }
    this.#pumping = false;
    if (this.#next < this.#queue.length) return;
    if (this.#next > 0) this.#queue = [];
    this.#next = this.#queuedBytes = 0;
    if (this.#paused && !this.#closed) {
      this.#paused = false;
      this.#stream.resume();
    }
    this.#rest();
  }

  /** Whether a request that comes now can be taken at once. */
  get #isFree(): boolean {
    return !this.#busy && !this.#full && !this.#pumping;
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
    if (!this.#draining || this.#seat === undefined) return this.#draining;
    const { gone, phase } = this.#seat;
    return gone !== undefined || (phase !== "running" && phase !== "owed");
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
      return this.#stream.send(response);
    } catch (error) {
      return this.#stream.send(errorResponse(error));
    }
  }

  #handle(request: Request): void {
    checkRequest(this.#roles, request.case);
    switch (request.case) {
      case "step":
        this.#joined("step").step(this.#seat as Seat, request.value, this.#reply);
        return;
      case "createWorld":
        this.#host.registry.create(this.#settings(request.value.settings), (result) =>
          this.#answer(result, (world) => ({
            case: "createWorld",
            value: create(CreateWorldResponseSchema, { worldName: world.name }),
          })),
        );
        return;
      case "joinWorld":
        this.#join(request.value);
        return;
      case "reset":
        this.#joined("reset").reset(
          this.#seat as Seat,
          this.#settings(request.value.settings),
          this.#reply,
        );
        return;
      case "resetWorld": {
        const { worldName, settings } = request.value;
        const world = this.#host.registry.get(worldName);
        const caller = this.#isIn(worldName) ? this.#seat : undefined;
        world.resetWorld(caller, this.#settings(settings), (result) =>
          this.#answer(result, () => ({
            case: "resetWorld",
            value: create(ResetWorldResponseSchema),
          })),
        );
        return;
      }
      case "leaveWorld":
        this.#leave((result) =>
          this.#answer(result, () => ({
            case: "leaveWorld",
            value: create(LeaveWorldResponseSchema),
          })),
        );
        return;
      case "destroyWorld":
        this.#destroy(request.value.worldName);
        return;
      case "malformed":
        if (isTensorError(request.value) && request.value.reason === "limit") throw request.value;
        throw new DmEnvRpcError(
          "INVALID_ARGUMENT",
          `expected an EnvironmentRequest, received bytes that are none: ${request.value.message}`,
        );
      case undefined:
        throw new DmEnvRpcError(
          "INVALID_ARGUMENT",
          "expected a request with a payload, received one without; set one field of EnvironmentRequest.payload",
        );
      default:
        this.#host.sideChannel
          .answer(request, this.#world, this.#seat, this.#roles)
          .then(this.#reply, (error: unknown) => this.#reply(errorResponse(error)));
    }
  }

  #settings(settings: Readonly<Record<string, TensorMessage>>): PackedSettings {
    return unpackSettings(settings, this.#host);
  }

  #answer<T>(result: T | DmEnvRpcError, make: (result: T) => ProcessResponse): void {
    this.#reply(isDmEnvRpcError(result) ? errorResponse(result) : make(result));
  }

  #isIn(worldName: string): boolean {
    return this.#world?.name === worldName;
  }

  /** The world that this connection has joined. */
  #joined(what: string): WorldHost {
    if (this.#world !== undefined) return this.#world;
    if (this.#seat?.gone !== undefined) throw this.#seat.gone;
    throw new DmEnvRpcError(
      "FAILED_PRECONDITION",
      `a ${what} needs a world, and this connection has joined none; send a JoinWorldRequest first`,
    );
  }

  #join(request: { worldName: string; settings: Record<string, TensorMessage> }): void {
    if (this.#world !== undefined) {
      throw new DmEnvRpcError(
        "FAILED_PRECONDITION",
        `this connection has joined the world "${this.#world.name}" already; leave it first, or join from another connection`,
      );
    }
    const world = this.#host.registry.get(request.worldName);
    const settings = new Map(this.#settings(request.settings));
    const token = shownToken(settings.get(joinTokenSetting), this.#stream.peer);
    settings.delete(joinTokenSetting);
    this.#stopTaking = this.#host.takeSeat(token, world.name, (taken) => {
      if (isDmEnvRpcError(taken)) this.#reply(errorResponse(taken));
      else world.join(settings, (result) => this.#joinedWorld(result, taken));
    });
  }

  #joinedWorld(result: Joined | DmEnvRpcError, taken: TakenSeat): void {
    if (isDmEnvRpcError(result)) taken.giveBack();
    else {
      const { host, seat } = result;
      this.#world = host;
      this.#seat = seat;
      const leave = this.#closed ? taken.giveBack : taken.leave;
      seat.onLeft = () => {
        leave();
        if (this.#seat !== seat) return;
        this.#world = undefined;
        this.#stopTaking = () => {};
      };
      if (this.#closed) this.#leave(() => {});
    }
    this.#answer(result, ({ seat }) => ({
      case: "joinWorld",
      value: create(JoinWorldResponseSchema, { specs: seat.specs.message }),
    }));
  }

  /** Leaves the world, if one is joined; otherwise it is a no-op. */
  #leave(done: (result: undefined | DmEnvRpcError) => void): void {
    const [world, seat] = [this.#world, this.#seat];
    this.#world = undefined;
    this.#seat = undefined;
    if (world === undefined || seat === undefined) done(undefined);
    else world.leave(seat, done);
  }

  #destroy(worldName: string): void {
    const world = this.#host.registry.get(worldName);
    if (this.#isIn(worldName)) {
      throw new DmEnvRpcError(
        "FAILED_PRECONDITION",
        `this connection has joined the world "${worldName}"; leave it before you destroy it`,
      );
    }
    world.destroy((result) =>
      this.#answer(result, () => ({
        case: "destroyWorld",
        value: create(DestroyWorldResponseSchema),
      })),
    );
  }
}
