// SPDX-License-Identifier: Apache-2.0
import type { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import type { Malformed, ProcessRequest, ProcessResponse } from "@dm-env-rpc/tensor-codec/wire";

/** A message that has arrived and is not decoded yet. */
export interface UnreadMessage<Received> {
  /** Bytes of the message, after inflation. */
  readonly size: number;
  /** The first byte, which holds the tag of a request's only field; 0 for a message without bytes. */
  readonly firstByte: number;
  /** Decodes the message. Its tensors are valid for as long as the tensors of a message passed to `onMessage`. */
  read(): Received | Malformed;
}

/**
 * Handlers of a stream's events. They are called synchronously, one at a time, in the order of the
 * events. No handler is called after `onClose`. Handlers must not throw.
 */
export interface StreamReceiver<Received> {
  /**
   * Called when a message has arrived, or a complete frame that failed to decode. `bytes` is its size, after inflation.
   *
   * On a server, a message that exceeds a limit is delivered as malformed, with a size of 0. If the limit is one of the
   * codec, this may happen before all of the message has arrived. If the limit is `maxMessageBytes`, `onEnd` follows, and
   * the client receives the limit's error when the server calls `end`.
   */
  onMessage(message: Received | Malformed, bytes: number): void;
  /**
   * True while messages are delivered to `onUnread` instead of `onMessage`. A receiver sets it while it would only
   * queue messages, because undecoded bytes take a fraction of the memory of a decoded message. Default: false.
   */
  readonly takesUnread?: boolean | undefined;
  /**
   * Called instead of `onMessage` while `takesUnread` is true. The message's bytes stay in memory for as long as the
   * message is referenced.
   */
  onUnread?(message: UnreadMessage<Received>): void;
  /**
   * Bytes of the messages that the receiver has queued. If undefined, the stream counts one message as queued: the
   * message during whose delivery the receiver paused.
   */
  readonly queuedBytes?: number | undefined;
  /** Called when the peer has ended its side (half-close): no more messages arrive, but this side can still send. */
  onEnd(): void;
  /** Called once enough bytes are sent after `send` has returned false. `send` may then be called again. */
  onDrain(): void;
  /**
   * Called when the stream is closed in both directions: always, and as the last event. Without an
   * error, both sides ended normally. With an error, the stream was aborted, reset or lost, and
   * undelivered messages are dropped.
   */
  onClose(error: Error | undefined): void;
}

/**
 * Returns the receiver with which a stream is started.
 *
 * @throws Error if the stream was already started.
 */
export function onlyReceiver<Received>(
  before: StreamReceiver<Received> | undefined,
  receiver: StreamReceiver<Received>,
): StreamReceiver<Received> {
  if (before === undefined) {
    return receiver;
  }
  throw new Error("stream already started: expected one call of start(), received a second");
}

/** Delivers a message to `onMessage`, or to `onUnread` while `takesUnread` is true. */
export function deliver<Received>(
  receiver: StreamReceiver<Received>,
  message: UnreadMessage<Received>,
): void {
  if (receiver.takesUnread === true) {
    receiver.onUnread?.(message);
  } else {
    receiver.onMessage(message.read(), message.size);
  }
}

/** Returns a refusal as a malformed message, in place of a message of which no byte was kept. */
export function unreadRefusal(refusal: Malformed): UnreadMessage<never> {
  return { size: 0, firstByte: 0, read: () => refusal };
}

/** Delivers a refusal as a malformed message. */
export function deliverRefusal(receiver: StreamReceiver<unknown>, refusal: Malformed): void {
  deliver(receiver, unreadRefusal(refusal));
}

/**
 * Delivers a message above the server's limit as malformed, then calls `onEnd`. The server thus answers the message
 * after all earlier messages. Later messages are dropped. When the server calls `end`, the client receives the error.
 */
export function refuseTooLarge(receiver: StreamReceiver<unknown>, error: DmEnvRpcError): void {
  deliverRefusal(receiver, { case: "malformed", value: error });
  receiver.onEnd();
}

/**
 * One Process stream as a sequence of messages, over any carrier.
 *
 * Messages are delivered and sent in order. Nothing is delivered before `start`.
 */
export interface MessageStream<Received, Sent> {
  /** Starts the delivery. Call it once. */
  start(receiver: StreamReceiver<Received>): void;
  /**
   * Sends a message. It is encoded before the call returns, so its tensors may be reused. Messages
   * sent in one turn of the event loop share as few writes as possible.
   *
   * Returns false if many bytes are buffered because the peer reads too slowly: stop sending until `onDrain`. If this
   * side has ended or the stream is closed, the message is dropped.
   *
   * @throws Error if the message cannot be encoded; the stream is unchanged.
   */
  send(message: Sent): boolean;
  /**
   * Stops the delivery of messages after the current message. Once the buffers are full, the peer has to
   * stop sending (backpressure). `onClose` is still called at once for a reset, a lost connection, or a client's abort.
   * The end of the call waits with the messages before it, also if it has an error status.
   */
  pause(): void;
  /** Resumes the delivery. Buffered messages are delivered soon, but not from inside this call. */
  resume(): void;
  /**
   * Declares that the tensors of all steps delivered so far are no longer used, so that their memory may be
   * reused for later steps. Without this call, the memory of a delivered message is never overwritten. On carriers
   * that do not reuse memory, the method is missing or has no effect.
   */
  recycle?(): void;
  /** Ends this side normally, after all sent messages: with a half-close, or with a server's trailers. */
  end(): void;
  /**
   * Ends both directions at once. A client receives the code of its server's error if the protocol can carry it. A
   * server receives CANCELLED, whatever the error of its client.
   */
  abort(error: Error): void;
}

/** The client of a server's stream. */
export interface Peer {
  /** Address and port, or a name for a stream without a network. */
  readonly address: string;
  /** Metadata of the call by lower-case name; repeated values are joined with ", ". */
  readonly metadata: ReadonlyMap<string, string>;
  /** Verified certificate of the peer in DER; undefined if the peer has none. */
  readonly certificate: Uint8Array | undefined;
}

/** The server's side of a stream. */
export interface ServerStream extends MessageStream<ProcessRequest, ProcessResponse> {
  readonly peer: Peer;
  /**
   * Ends the call after all sent messages, normally or with a status. The client's `onClose` receives the status. Pass
   * a status if requests of the client may be unanswered.
   */
  end(status?: DmEnvRpcError): void;
  /**
   * Counts the call as refused, for example because of a limit. Call it at most once, before `abort`. A listener ends an
   * HTTP/2 connection on which about a thousand calls are refused. Other carriers lack the method.
   */
  countRefused?(): void;
}

/** The client's side of a stream. */
export type ClientStream = MessageStream<ProcessResponse, ProcessRequest>;
