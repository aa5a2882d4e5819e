// SPDX-License-Identifier: Apache-2.0

import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { toConnectError } from "../internal/connect-errors.ts";
import type { Carried } from "../stream/generated-messages.ts";
import {
  deliver,
  type MessageStream,
  onlyReceiver,
  refuseTooLarge,
  type StreamReceiver,
  type UnreadMessage,
} from "../stream/message-stream.ts";

/** Converters and callbacks of an IterableStream. */
export interface IterableStreamOptions<Received, Sent, In, Out> {
  readonly decode: (message: In) => UnreadMessage<Received>;
  readonly encode: (message: Sent) => Carried<Out>;
  /**
   * Called when the incoming iterable has ended and all its messages were delivered. Resolves with the
   * meaning of the end: the peer's half-close, or the end of the whole call without an error.
   */
  readonly onIncomingEnd: () => Promise<"half-close" | "end-of-call">;
  /** Maps an error that an iterable threw to the error that the stream reports. */
  readonly errorOf: (error: unknown) => Error;
  /**
   * Maps an error of the incoming iterable to the error of a message above the limit; undefined for
   * any other error.
   */
  readonly tooLargeOf?: ((error: unknown) => DmEnvRpcError | undefined) | undefined;
  /** Returns how many bytes may wait for Connect before `send` returns false. */
  readonly highWaterBytes: () => number;
  /** Called when the stream is done, with the error if it failed. */
  readonly onDone: (error: Error | undefined) => void;
  /** True if the end of this side ends the call, as it does for a server. */
  readonly endsCall: boolean;
}

interface Waiting<Out> {
  readonly resolve: (result: IteratorResult<Out, undefined>) => void;
  readonly reject: (error: Error) => void;
}

/**
 * A MessageStream made of two async iterables: one that it reads, and one that Connect reads.
 *
 * It requests the next incoming message once the previous one was delivered. While paused, it still requests one
 * message, and holds it. Outgoing messages wait here; `send` returns false if too many wait.
 */
export class IterableStream<Received, Sent, In, Out> implements MessageStream<Received, Sent> {
  readonly #options: IterableStreamOptions<Received, Sent, In, Out>;
  readonly #incoming: AsyncIterator<In>;
  #receiver: StreamReceiver<Received> | undefined;
  readonly #outbox: Carried<Out>[] = [];
  #outboxBytes = 0;
  #waiting: Waiting<Out> | undefined;
  #needsDrain = false;
  #paused = false;
  #reading = false;
  #held: { readonly message: In } | undefined;
  #incomingOver = false;
  #toldEnd = false;
  #ended = false;
  #done = false;
  #failure: Error | undefined;
  /** Error of a message that was too large to read. The end of this side reports it. */
  #tooLarge: DmEnvRpcError | undefined;
  /** Status with which a server has ended. */
  #status: DmEnvRpcError | undefined;

  /** @param open Receives the outgoing iterable and returns the incoming one. */
  constructor(
    open: (outgoing: AsyncIterable<Out>) => AsyncIterable<In>,
    options: IterableStreamOptions<Received, Sent, In, Out>,
  ) {
    this.#options = options;
    this.#incoming = open(this.outgoing())[Symbol.asyncIterator]();
  }

  /** Bytes of the messages that wait for Connect or for the receiver to read them. */
  get waitingBytes(): number {
    return this.#outboxBytes + (this.#receiver?.queuedBytes ?? 0);
  }

  /** Sent messages, for Connect to read. */
  outgoing(): AsyncIterable<Out> {
    return {
      [Symbol.asyncIterator]: () => ({
        next: () => this.#nextOutgoing(),
        return: async () => {
          this.#onOutgoingGone();
          return { done: true, value: undefined };
        },
        throw: async (error: unknown) => {
          this.finish(this.#options.errorOf(error));
          return { done: true, value: undefined };
        },
      }),
    };
  }

  start(receiver: StreamReceiver<Received>): void {
    this.#receiver = onlyReceiver(this.#receiver, receiver);
    if (this.#done) {
      process.nextTick(() => receiver.onClose(this.#failure));
    } else {
      this.#read();
    }
  }

  send(message: Sent): boolean {
    if (this.#done || this.#ended) {
      return true;
    }
    const carried = this.#options.encode(message);
    const waiting = this.#waiting;
    if (waiting !== undefined) {
      this.#waiting = undefined;
      waiting.resolve({ done: false, value: carried.message });
      return true;
    }
    this.#outbox.push(carried);
    this.#outboxBytes += carried.bytes;
    if (this.#outboxBytes < this.#options.highWaterBytes()) {
      return true;
    }
    this.#needsDrain = true;
    return false;
  }

  pause(): void {
    this.#paused = true;
  }

  resume(): void {
    if (this.#paused) {
      this.#paused = false;
      process.nextTick(() => this.#deliver());
    }
  }

  end(status?: DmEnvRpcError): void {
    if (this.#done || this.#ended) {
      return;
    }
    this.#ended = true;
    this.#status = status;
    if (this.#waiting !== undefined) {
      this.#concludeOutgoing(this.#waiting);
    }
  }

  abort(error: Error): void {
    if (this.#done) {
      return;
    }
    this.finish(error);
  }

  /** Calls the receiver's `onClose`, once, after every other callback. */
  finish(error: Error | undefined): void {
    if (this.#done) {
      return;
    }
    this.#done = true;
    this.#failure = error;
    this.#outbox.length = 0;
    this.#outboxBytes = 0;
    this.#held = undefined;
    if (this.#waiting !== undefined) {
      this.#concludeOutgoing(this.#waiting);
    }
    // The iterable is no longer read, so its next message or its error is dropped.
    this.#incoming.next().catch(() => {});
    this.#incoming.return?.().catch(() => {});
    this.#options.onDone(error);
    const receiver = this.#receiver;
    if (receiver !== undefined) {
      process.nextTick(() => receiver.onClose(error));
    }
  }

  #nextOutgoing(): Promise<IteratorResult<Out, undefined>> {
    const carried = this.#outbox.shift();
    if (carried !== undefined) {
      this.#outboxBytes -= carried.bytes;
      this.#drain();
      return Promise.resolve({ done: false, value: carried.message });
    }
    return new Promise((resolve, reject) => {
      const waiting = { resolve, reject };
      if (this.#ended || this.#done) {
        this.#concludeOutgoing(waiting);
      } else {
        this.#waiting = waiting;
      }
    });
  }

  #concludeOutgoing(waiting: Waiting<Out>): void {
    this.#waiting = undefined;
    const failure = this.#failure ?? this.#tooLarge ?? this.#status;
    if (failure === undefined) {
      waiting.resolve({ done: true, value: undefined });
    } else {
      waiting.reject(toConnectError(failure));
    }
    if (this.#options.endsCall) {
      this.finish(failure);
    }
  }

  /** Called when Connect stops reading the outgoing iterable, because the call is over or the peer is lost. */
  #onOutgoingGone(): void {
    if (this.#options.endsCall) {
      this.finish(
        new DmEnvRpcError("CANCELLED", "the peer ended the call", { origin: "connection" }),
      );
    } else {
      this.end(); // The incoming iterable reports how the call ended.
    }
  }

  #drain(): void {
    if (!this.#needsDrain || this.#outboxBytes > this.#options.highWaterBytes() / 2) {
      return;
    }
    this.#needsDrain = false;
    process.nextTick(() => {
      if (!this.#done && !this.#ended) {
        this.#receiver?.onDrain();
      }
    });
  }

  /** Requests one message ahead, even while paused, to detect that the peer is lost. */
  #read(): void {
    if (this.#reading || this.#held !== undefined || this.#done || this.#incomingOver) {
      return;
    }
    this.#reading = true;
    this.#incoming.next().then(
      (result) => {
        this.#reading = false;
        if (result.done) {
          this.#incomingOver = true;
        } else {
          this.#held = { message: result.value };
        }
        this.#deliver();
      },
      (error: unknown) => {
        this.#tooLarge = this.#options.tooLargeOf?.(error);
        if (this.#tooLarge === undefined) {
          this.finish(this.#options.errorOf(error));
          return;
        }
        this.#reading = false;
        this.#incomingOver = true;
        this.#deliver();
      },
    );
  }

  #deliver(): void {
    const receiver = this.#receiver;
    if (this.#ended && this.#options.endsCall) {
      this.#held = undefined; // A side that has ended the call receives no more messages.
    }
    if (this.#paused || this.#done || receiver === undefined) {
      return;
    }
    if (this.#held !== undefined) {
      const { message } = this.#held;
      this.#held = undefined;
      deliver(receiver, this.#options.decode(message));
    }
    if (!this.#incomingOver) {
      this.#read();
    } else if (!this.#toldEnd) {
      this.#toldEnd = true;
      if (this.#tooLarge !== undefined) {
        refuseTooLarge(receiver, this.#tooLarge);
        return;
      }
      this.#options.onIncomingEnd().then(
        (meaning) => this.#concludeIncoming(meaning),
        (error: unknown) => this.finish(this.#options.errorOf(error)),
      );
    }
  }

  #concludeIncoming(meaning: "half-close" | "end-of-call"): void {
    if (this.#done) {
      return;
    }
    this.#receiver?.onEnd();
    if (meaning === "end-of-call") {
      this.finish(undefined);
    }
  }
}
