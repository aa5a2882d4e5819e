// SPDX-License-Identifier: Apache-2.0
import type { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import type { Malformed, ProcessRequest, ProcessResponse } from "@dm-env-rpc/tensor-codec/wire";

/**
 * What happens on a stream. The handlers are called synchronously, one at a
 * time, in the order of the events; none is called after `onClose`. They must not throw.
 */
export interface StreamReceiver<Received> {
  /**
   * A message arrived, or a complete frame that failed to decode; `bytes` is its size, after inflation. A server
   * also receives a message above its limit as one that failed to decode, then `onEnd`; the end that it sends
   * reports the error.
   */
  onMessage(message: Received | Malformed, bytes: number): void;
  /** The peer ended its side (half-close): no more messages come, sending still works. */
  onEnd(): void;
  /** What was sent has gone out far enough to send more, after a `send` that returned false. */
  onDrain(): void;
  /**
   * The stream is gone, in both directions; always the last event, and there always is one.
   * Without an error both sides had ended in good order; with one it was aborted,
   * reset or lost, and what was not delivered yet never will be.
   */
  onClose(error: Error | undefined): void;
}

/**
 * The receiver that a stream starts with.
 *
 * @throws Error when it has started with one before.
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

/**
 * Delivers a message above the server's limit as one that cannot be read, so that it is answered after the earlier
 * ones, and the end of the client's side: what follows it is dropped. The server's end reports the error, too.
 */
export function refuseTooLarge(receiver: StreamReceiver<unknown>, error: DmEnvRpcError): void {
  receiver.onMessage({ case: "malformed", value: error }, 0);
  receiver.onEnd();
}

/**
 * One Process stream as a sequence of messages, whatever carries it.
 *
 * Messages are delivered and sent in order. Nothing is delivered before `start`.
 */
export interface MessageStream<Received, Sent> {
  /** Starts the delivery; called once. */
  start(receiver: StreamReceiver<Received>): void;
  /**
   * Sends a message. It is encoded before the call returns, so its tensors may be
   * reused. What is sent in one turn of the event loop goes out in as few writes as may be.
   *
   * Returns false when more is buffered than the peer takes: stop until `onDrain`.
   * On a stream that is closed or ended the message is dropped.
   *
   * @throws Error when the message cannot be encoded; the stream is as it was.
   */
  send(message: Sent): boolean;
  /**
   * Stops the delivery of messages after the one being delivered, and with it,
   * once buffers are full, the peer (backpressure). `onClose` still comes.
   */
  pause(): void;
  /** Goes on with the delivery; what had come meanwhile is delivered in a later turn. */
  resume(): void;
  /**
   * Says that nobody looks at the tensors of steps delivered so far: their memory may be used for
   * later steps. Without it every message has memory of its own. Carriers without memory to use
   * again leave it out.
   */
  recycle?(): void;
  /** Ends this side in good order, after everything sent: a half-close, or a server's trailers. */
  end(): void;
  /** Ends both directions at once. The peer learns the error's code where the protocol has a way. */
  abort(error: Error): void;
}

/** Who is at the other end of a server's stream. */
export interface Peer {
  /** Address and port as text, or a name for a stream without a network. */
  readonly address: string;
  /** Metadata of the call, by lower-case name; a name that came twice is joined with ", ". */
  readonly metadata: ReadonlyMap<string, string>;
  /** The certificate of the peer, DER bytes, where TLS asked for one and it was verified. */
  readonly certificate: Uint8Array | undefined;
}

/** The server's side of a stream. */
export interface ServerStream extends MessageStream<ProcessRequest, ProcessResponse> {
  readonly peer: Peer;
}

/** The client's side of a stream. */
export type ClientStream = MessageStream<ProcessResponse, ProcessRequest>;
