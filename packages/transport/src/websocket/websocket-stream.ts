// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import type { Malformed, MessageCodec } from "@dm-env-rpc/tensor-codec/wire";
import { Queue } from "../internal/turns/queue.ts";
import type { ByteAccount, ByteHolder } from "../limits/buffered-bytes.ts";
import {
  highWaterBytes,
  holdBytes,
  lowWaterBytes,
  mostPieces,
  pieceBytes,
} from "../limits/limits.ts";
import { tooLarge } from "../limits/too-large.ts";
import {
  deliver,
  type MessageStream,
  onlyReceiver,
  refuseTooLarge,
  type StreamReceiver,
  type UnreadMessage,
  unreadRefusal,
} from "../stream/message-stream.ts";
import { UnreadMessages } from "../stream/unread-messages.ts";
import {
  closeCodeOf,
  closeReasonOf,
  endMessage,
  errorOfClose,
  normalClosure,
  readStatusMessage,
  statusMessageOf,
} from "./protocol.ts";

/** If each message causes a pause and a resume, at most this many messages are delivered before other streams run. */
const resumesPerTurn = 64;

/**
 * Reading pauses once the inbox has this many messages. At most this many messages are delivered from the inbox before
 * other streams run.
 */
const messagesPerTurn = 256;

/** Bytes that each queued message adds to its own size, so that the number of empty messages is bounded, too. */
const messageOverheadBytes = 128;

/** Encodes the messages of one direction. */
export type Encoder<T> = Pick<MessageCodec<T>, "size" | "write">;

/** Encodes a message in separate memory. */
export function encoded<T>(message: T, encoder: Encoder<T>): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(encoder.size(message));
  encoder.write(message, bytes, 0);
  return bytes;
}

/** An open WebSocket of any library or platform. */
export interface Socket {
  /** Bytes sent but not yet passed to the network. */
  readonly bufferedBytes: number;
  /** Bytes received of an incomplete message. */
  readonly partialBytes: number;
  /** True while bytes that have arrived wait for a turn of this side. Default: they never do. */
  readonly isBehind?: boolean | undefined;
  /** Starts to call the handlers of `events`. Call it once. */
  start(events: SocketEvents): void;
  /** Sends a binary message and takes over its memory. */
  sendBinary(bytes: Uint8Array<ArrayBuffer>): void;
  /** Encodes and sends a binary message. */
  sendMessage<T>(message: T, encoder: Encoder<T>): void;
  sendText(text: string): void;
  /** Stops reading, if the platform can. Messages that were read before may still arrive. */
  pause(): void;
  resume(): void;
  /** Starts the closing handshake after all sent messages. */
  close(code: number, reason: string): void;
  /**
   * Cuts the connection if the peer does not answer the close within a second. Has no effect if the platform cannot do
   * this.
   */
  terminateSoon(): void;
  /** Runs a task in a later turn of the event loop, after pending input. */
  later(task: () => void): void;
}

/** Handlers of the events of an open WebSocket, which are called in the order of the events. */
export interface SocketEvents {
  /** Called when a binary message has arrived: the bytes of `source` from `start` to `end`. */
  onBinary(source: Uint8Array, start: number, end: number): void;
  /** Called instead of `onBinary` for a binary message whose check has failed. */
  onRefusal(refusal: Malformed): void;
  onText(text: string): void;
  /** Called when `bufferedBytes` has fallen. */
  onDrain(): void;
  /** Called when `partialBytes` has changed. */
  onPartial(): void;
  /**
   * Called when a part of a fragmented message with fewer than `pieceBytes` bytes has arrived, except the last part.
   * Default: pieces are not counted.
   */
  onPiece?(): void;
  /**
   * Called when a message has more than `maxFragments` fragments, or one of its frames takes more than `maxFrameReads`
   * network reads. This message and all later messages are dropped. Default: the socket closes.
   */
  onTooManyPieces?(): void;
  /** Called when a message is above the limit. This message and all later messages are dropped. */
  onTooLarge(): void;
  /** Called when the socket is closed. Always the last event. */
  onClose(code: number, reason: string): void;
}

/** Options of a stream over a WebSocket. */
export interface WebSocketStreamOptions<Received, Sent> {
  readonly socket: Socket;
  readonly side: "client" | "server";
  readonly decoder: Pick<MessageCodec<Received>, "read">;
  readonly encoder: Encoder<Sent>;
  readonly maxMessageBytes: number;
  /** Name of the limit that sets `maxMessageBytes`. Default: that name. */
  readonly messageLimit?: string | undefined;
  /** Name of the other side in errors: "the client at …" or "the server at …". */
  readonly peerName: string;
  /** Opens an account of the stream's undelivered bytes. Default: none. */
  readonly openAccount?: ((holder: ByteHolder) => ByteAccount) | undefined;
}

/**
 * Either side of a Process stream over a WebSocket.
 *
 * The protocol's messages are binary. A client ends its side with a text message; a server ends its side with
 * close code 1000. The close code of an error contains the gRPC status.
 */
export class WebSocketStream<Received, Sent> implements MessageStream<Received, Sent> {
  readonly #options: WebSocketStreamOptions<Received, Sent>;
  readonly #socket: Socket;
  readonly #unread: UnreadMessages<Received>;
  readonly #account: ByteAccount | undefined;
  #receiver: StreamReceiver<Received> | undefined;
  /** Messages that arrived while delivery was paused, and the refusals of others. */
  #inbox = new Queue<UnreadMessage<Received>>();
  #inboxBytes = 0;
  #paused = false;
  #reading = true;
  #scheduled = false;
  #delivering = false;
  #resumes = 0;
  /** True once the peer has ended its side normally. */
  #peerEnded = false;
  #toldEnd = false;
  /** True once this side has ended. */
  #ended = false;
  #done = false;
  #failure: Error | undefined;
  /** Error with which the server ends the call. */
  #status: DmEnvRpcError | undefined;
  #explained: string | undefined;
  #needsDrain = false;

  constructor(options: WebSocketStreamOptions<Received, Sent>) {
    this.#options = options;
    this.#socket = options.socket;
    this.#unread = new UnreadMessages(options.decoder);
    const stream = this;
    this.#account = options.openAccount?.({
      get isWaitingForPeer() {
        const { partialBytes, isBehind } = stream.#socket;
        return stream.#reading && isBehind !== true && partialBytes > 0;
      },
      get unreportedBytes() {
        return stream.#socket.bufferedBytes + (stream.#receiver?.queuedBytes ?? 0);
      },
      fail: (error) => this.abort(error), // If the peer does not read, its connection is cut after a second.
    });
    options.socket.start({
      onBinary: (source, start, end) => this.#onBinary(source, start, end),
      onRefusal: (refusal) => this.#onRefusal(refusal),
      onText: (text) => this.#onText(text),
      onDrain: () => this.#onDrain(),
      onPartial: () => this.#keepAccount(),
      onPiece: () => {
        if (this.#account?.piece() === false) {
          this.#onTooManyPieces(
            `frames of ${pieceBytes} bytes or more, received thousands of smaller ones`,
          );
        }
      },
      onTooManyPieces: () => this.#onTooManyPieces(`at most ${mostPieces}, received more`),
      onTooLarge: () => this.#onTooLarge("more"),
      onClose: (code, reason) => {
        this.#account?.close();
        this.#onClose(code, reason);
      },
    });
  }

  start(receiver: StreamReceiver<Received>): void {
    this.#receiver = onlyReceiver(this.#receiver, receiver);
    if (this.#done) {
      this.#tellClose();
    } else {
      this.#schedule();
    }
  }

  send(message: Sent): boolean {
    if (this.#done || this.#ended) {
      return true; // The message is dropped. `onClose` reports to the sender that the stream has ended.
    }
    this.#socket.sendMessage(message, this.#options.encoder);
    if (this.#hasRoom()) {
      return true;
    }
    this.#needsDrain = true;
    return false;
  }

  pause(): void {
    this.#paused = true;
  }

  resume(): void {
    if (!this.#paused) {
      return;
    }
    this.#paused = false;
    this.#resumes += 1;
    if (this.#resumes < resumesPerTurn && !this.#scheduled) {
      this.#scheduled = true;
      queueMicrotask(this.#deliverScheduled);
    } else {
      this.#schedule();
    }
  }

  end(status?: DmEnvRpcError): void {
    if (this.#done || this.#ended) {
      return;
    }
    this.#ended = true;
    if (this.#options.side === "client") {
      this.#socket.sendText(endMessage);
      return;
    }
    this.#forget(); // A server that has ended the call drops later requests.
    if (this.#status !== undefined) {
      // A peer that has sent too much may not read the close, so its connection is cut after a second.
      this.#closeWith(this.#status);
      this.#socket.terminateSoon();
      this.#finish(this.#status);
    } else if (status !== undefined) {
      this.#status = status;
      this.#closeWith(status);
      this.#readOn(); // So that the peer's close is read.
    } else {
      this.#socket.close(normalClosure, "");
      this.#readOn();
    }
  }

  abort(error: Error): void {
    if (this.#done) {
      return;
    }
    if (this.#options.side === "server") {
      this.#closeWith(error);
    } else {
      // As over gRPC, where a client can only reset the stream.
      const reported = new DmEnvRpcError("CANCELLED", "", { origin: "client" });
      this.#socket.close(closeCodeOf(reported), closeReasonOf(reported));
    }
    this.#socket.terminateSoon();
    this.#finish(error);
  }

  /** Closes a server's socket with a status. */
  #closeWith(error: Error): void {
    this.#socket.sendText(statusMessageOf(error));
    this.#socket.close(closeCodeOf(error), closeReasonOf(error));
  }

  readonly #deliverScheduled = (): void => {
    this.#scheduled = false;
    this.#deliver();
  };

  /** Delivers in a later turn of the event loop. */
  #schedule(): void {
    if (this.#scheduled) {
      return;
    }
    this.#scheduled = true;
    this.#resumes = 0;
    this.#socket.later(this.#deliverScheduled);
  }

  #onBinary(source: Uint8Array, start: number, end: number): void {
    if (!this.#isExpected()) {
      return;
    }
    if (this.#isBlocked() || this.#inbox.size > 0) {
      this.#store(this.#unread.add(source, start, end));
      return;
    }
    this.#delivering = true;
    this.#hand(source, start, end);
    this.#delivering = false;
  }

  #onRefusal(refusal: Malformed): void {
    if (!this.#isExpected()) {
      return;
    }
    this.#store(unreadRefusal(refusal));
    if (!this.#isBlocked()) {
      this.#deliver();
    }
  }

  #onTooManyPieces(expected: string): void {
    const remedy =
      this.#options.side === "server"
        ? "send messages whole"
        : "make the server send messages whole";
    this.abort(
      new DmEnvRpcError(
        "RESOURCE_EXHAUSTED",
        `message in too many pieces: expected ${expected}; ${remedy}`,
        { origin: "client" },
      ),
    );
  }

  /** Returns false if a message is dropped, because the stream has ended. Ends the stream if the peer has ended its side. */
  #isExpected(): boolean {
    if (this.#done || (this.#ended && this.#options.side === "server")) {
      return false;
    }
    if (this.#peerEnded) {
      this.abort(
        new DmEnvRpcError(
          "FAILED_PRECONDITION",
          `a message arrived after the client had ended its side; send "${endMessage}" last`,
          { origin: "client" },
        ),
      );
      return false;
    }
    return true;
  }

  /** Adds a message to the inbox. */
  #store(message: UnreadMessage<Received>): void {
    this.#inbox.push(message);
    this.#inboxBytes += message.size + messageOverheadBytes;
    this.#keepAccount();
    // The reader holds the remaining frames as bytes, which take far less memory than messages.
    const isFull = this.#inbox.size >= messagesPerTurn || this.#inboxBytes >= holdBytes;
    if (this.#reading && isFull) {
      this.#reading = false;
      this.#socket.pause();
      this.#account?.count();
    }
  }

  #isBlocked(): boolean {
    return this.#paused || this.#scheduled || this.#delivering || this.#receiver === undefined;
  }

  #hand(source: Uint8Array, start: number, end: number): void {
    if (this.#receiver !== undefined && !this.#isTooLarge(end - start)) {
      this.#unread.deliver(this.#receiver, source, start, end);
    }
  }

  /** Returns true for a message that the socket has passed on although it is above the limit, as a platform's socket does. */
  #isTooLarge(size: number): boolean {
    const isTooLarge = size > this.#options.maxMessageBytes;
    if (isTooLarge) {
      this.#onTooLarge(`${size} bytes`);
    }
    return isTooLarge;
  }

  #deliver(): void {
    const receiver = this.#receiver;
    if (receiver === undefined || this.#delivering) {
      return;
    }
    this.#delivering = true;
    for (let left = messagesPerTurn; !this.#paused && !this.#done; left -= 1) {
      if (this.#inbox.size === 0) {
        break;
      }
      if (left === 0) {
        this.#schedule();
        break;
      }
      const message = this.#inbox.shift();
      if (message !== undefined) {
        this.#inboxBytes -= message.size + messageOverheadBytes;
        if (!this.#isTooLarge(message.size)) {
          deliver(receiver, message);
        }
      }
    }
    this.#delivering = false;
    this.#keepAccount();
    if (this.#done || this.#paused || this.#scheduled) {
      return;
    }
    this.#readOn();
    if (this.#peerEnded && this.#inbox.size === 0) {
      this.#tellEnd(receiver);
    }
  }

  #onText(text: string): void {
    if (this.#options.side === "client") {
      this.#explained = readStatusMessage(text);
      return;
    }
    if (text === endMessage) {
      this.#peerEnd();
      return;
    }
    this.abort(
      new DmEnvRpcError(
        "INVALID_ARGUMENT",
        `unknown text message: expected "${endMessage}" (the client ends its side), received ${JSON.stringify(text.slice(0, 40))}; send requests as binary messages`,
        { origin: "client" },
      ),
    );
  }

  #onTooLarge(received: string): void {
    if (this.#done || (this.#ended && this.#options.side === "server")) {
      return;
    }
    const { side, maxMessageBytes, messageLimit } = this.#options;
    const error = tooLarge(side, received, maxMessageBytes, messageLimit);
    if (side === "client") {
      this.abort(error);
    } else {
      this.#status = error;
      this.#peerEnd(); // Earlier messages are delivered first.
    }
  }

  #peerEnd(): void {
    this.#peerEnded = true;
    this.#schedule();
  }

  #tellEnd(receiver: StreamReceiver<Received>): void {
    if (this.#toldEnd || (this.#ended && this.#options.side === "server")) {
      return;
    }
    this.#toldEnd = true;
    if (this.#options.side === "client") {
      if (this.#status === undefined) {
        receiver.onEnd();
      }
      this.#finish(this.#status);
    } else if (this.#status !== undefined) {
      refuseTooLarge(receiver, this.#status);
    } else {
      receiver.onEnd();
    }
  }

  #onDrain(): void {
    if (!this.#needsDrain || this.#done || !this.#hasRoom()) {
      return;
    }
    this.#needsDrain = false;
    this.#receiver?.onDrain();
  }

  /** Returns true if the stream may buffer more messages for its peer. */
  #hasRoom(): boolean {
    const unread = this.#socket.bufferedBytes;
    return unread < lowWaterBytes || (unread < highWaterBytes && this.#account?.isTight !== true);
  }

  #onClose(code: number, reason: string): void {
    if (this.#done) {
      return;
    }
    const { side, peerName } = this.#options;
    const error = errorOfClose(side, peerName, code, reason, this.#explained);
    const expected = this.#status === undefined ? normalClosure : closeCodeOf(this.#status);
    if (side === "client" && (error === undefined || error.origin === "server")) {
      this.#status = error;
      this.#peerEnd(); // Earlier messages are delivered first.
    } else if (side === "server" && this.#ended && code === expected) {
      this.#finish(this.#status);
    } else {
      this.#finish(
        error ??
          new DmEnvRpcError(
            "CANCELLED",
            `${peerName} closed the stream before the server had ended it`,
            { origin: "client" },
          ),
      );
    }
  }

  /**
   * Drops buffered messages and calls the receiver's `onClose`, once, after every other callback.
   */
  #finish(error: Error | undefined): void {
    if (this.#done) {
      return;
    }
    this.#done = true;
    this.#failure = error;
    this.#forget();
    this.#readOn(); // So that the peer's close is read.
    if (this.#receiver !== undefined) {
      this.#tellClose();
    }
  }

  #tellClose(): void {
    queueMicrotask(() => this.#receiver?.onClose(this.#failure));
  }

  /** Ends a pause of the reading. */
  #readOn(): void {
    if (!this.#reading) {
      this.#reading = true;
      this.#socket.resume();
    }
  }

  #forget(): void {
    this.#inbox = new Queue();
    this.#inboxBytes = 0;
    this.#keepAccount();
  }

  #keepAccount(): void {
    this.#account?.hold(this.#done ? 0 : this.#inboxBytes + this.#socket.partialBytes);
  }
}
