// SPDX-License-Identifier: Apache-2.0
import { type ClientHttp2Stream, constants, type ServerHttp2Stream } from "node:http2";
import { DmEnvRpcError, isDmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import type {
  Malformed,
  MessageCodec,
  ProcessRequest,
  ProcessResponse,
} from "@dm-env-rpc/tensor-codec/wire";
import { checkedBytes } from "../assembly/assembly.ts";
import type { BufferPool } from "../assembly/buffer-pool.ts";
import { checkInTurns } from "../assembly/check-in-turns.ts";
import { prefixBytes } from "../internal/envelope.ts";
import type { CheckTurns } from "../internal/turns/thread-share.ts";
import type { ByteAccount, ByteHolder } from "../limits/buffered-bytes.ts";
import {
  chunksPerBurst,
  highWaterBytes,
  holdBytes,
  lowWaterBytes,
  pieceBytes,
} from "../limits/limits.ts";
import {
  deliverRefusal,
  type MessageStream,
  onlyReceiver,
  type StreamReceiver,
} from "../stream/message-stream.ts";
import { UnreadMessages } from "../stream/unread-messages.ts";
import { AlignmentLearner } from "./alignment.ts";
import { Deframer } from "./framing.ts";
import { inflate, inflatedSize } from "./inflation.ts";
import { type Encoder, Outbox, type Piece } from "./outbox.ts";
import { ReadAhead } from "./read-ahead.ts";
import { BatchedStream, type TurnBatch } from "./turn-batch.ts";

/**
 * Maximum number of messages of one chunk that are delivered before pending messages are written. With many requests in
 * flight, the peer thus works on the first responses while this side works on the remaining requests.
 */
const messagesPerWrite = 32;

/** Maximum number of messages of one chunk that are delivered before other streams run. */
const messagesPerTurn = 256;

/** Maximum number of messages of one chunk that are converted before other streams run: each takes tens of microseconds. */
const conversionsPerTurn = 16;

/** If at least this many bytes wait for a stream that goes on, they may be the start of a large message: they wait for a turn. */
const largeBytes = 8 * 1024;

/** If each message causes a pause and a resume, at most this many messages are delivered before other streams run. */
const resumesPerTurn = 64;

/** If earlier flushes left at least this many bytes unsent, a flush first counts them (`ByteAccount.count`). */
const untakenBytes = 16 * 1024;

type Conversion = (source: Uint8Array, start: number, end: number) => Uint8Array | Malformed;

/** Options that both sides of a gRPC call share. */
export interface Http2StreamOptions<Received, Sent, Carrier> {
  readonly http2: Carrier;
  readonly side: "client" | "server";
  readonly decoder: Pick<MessageCodec<Received>, "read" | "arriving">;
  readonly encoder: Encoder<Sent>;
  readonly maxMessageBytes: number;
  /** Name of the limit that sets `maxMessageBytes`. Default: that name. */
  readonly messageLimit?: string | undefined;
  /**
   * Converts a received message to the format of `decoder`, or returns its error. Default: messages are in this format.
   */
  readonly convert?: Conversion | undefined;
  /** Memory for large outgoing messages. */
  readonly pool: BufferPool;
  /** Returns the reason why the connection is lost or closing, if known. */
  readonly connectionFailure: () => Error | undefined;
  /** Opens an account for the bytes that the stream buffers. Default: none. */
  readonly openAccount?: ((holder: ByteHolder) => ByteAccount) | undefined;
  /** Shares the thread among all streams that check large requests. Default: a stream does not wait for others. */
  readonly turns?: CheckTurns | undefined;
  /** Delivers chunks together with those of other streams. Default: each chunk is delivered when it arrives. */
  readonly batch?: TurnBatch | undefined;
}

/**
 * The part of a gRPC call over a node:http2 stream that both sides share: framing,
 * backpressure, and the order of the receiver's callbacks.
 *
 * A chunk is deframed, decoded and delivered synchronously, without an `await`. The messages that the receiver sends
 * meanwhile are written together.
 */
export abstract class Http2MessageStream<
  Received extends ProcessRequest | ProcessResponse,
  Sent,
  Carrier extends ClientHttp2Stream | ServerHttp2Stream = ClientHttp2Stream | ServerHttp2Stream,
> implements MessageStream<Received, Sent>, ByteHolder
{
  protected readonly http2: Carrier;
  /** True once the peer has ended its side and all of its bytes have arrived. */
  protected peerEnded = false;
  /** True once this side has ended. */
  protected ended = false;
  /** True once `onClose` has been called or is scheduled. */
  protected done = false;
  /** True once all further bytes of the peer are dropped. */
  protected discarding = false;
  /** The peer's `grpc-encoding`. */
  protected encoding: string | undefined;
  protected readonly connectionFailure: () => Error | undefined;
  protected lastError: Error | undefined;

  readonly #decoder: Pick<MessageCodec<Received>, "read">;
  readonly #unread: UnreadMessages<Received>;
  readonly #deframer: Deframer;
  #alignment: AlignmentLearner | undefined;
  readonly #pool: BufferPool;
  readonly #outbox: Outbox<Sent>;
  readonly #maxMessageBytes: number;
  readonly #messageLimit: string | undefined;
  readonly #convert: Conversion | undefined;
  /** Starts to check a large message. */
  readonly #arriving: MessageCodec<Received>["arriving"];
  readonly #side: "client" | "server";
  #receiver: StreamReceiver<Received> | undefined;
  /** Borrowed memory of the last assembled step, if the receiver calls `recycle`. */
  #borrowed: Buffer | undefined;
  #recycles = false;
  #failure: Error | undefined;
  #toldEnd = false;
  #delivering = false;
  #paused = false;
  #inflating = false;
  /** A message that was inflated, or its refusal. */
  #inflated: Buffer | Malformed | undefined;
  /** Size of a message that is being inflated, or during whose delivery the receiver paused. */
  #heldBytes = 0;
  readonly #account: ByteAccount | undefined;
  readonly #batched: BatchedStream | undefined;
  readonly #turns: CheckTurns | undefined;
  #receivedChunks = 0;
  #readAhead: ReadAhead | undefined;
  #yielding = false;
  #resumes = 0;
  #burst = 0;
  #needsDrain = false;
  #flushScheduled = false;
  readonly #flushLater = (): void => {
    this.#flushScheduled = false;
    this.#flushUnlessBlocked();
  };

  readonly #goOn = (): void => {
    this.#yielding = false;
    if (this.#deframer.isChecking || this.#deframer.bufferedBytes >= largeBytes) {
      this.#deliverInTurn();
    } else {
      this.#deliver();
    }
  };

  constructor(options: Http2StreamOptions<Received, Sent, Carrier>) {
    this.http2 = options.http2;
    this.connectionFailure = options.connectionFailure;
    this.#decoder = options.decoder;
    this.#unread = new UnreadMessages(options.decoder);
    this.#pool = options.pool;
    this.#outbox = new Outbox(options.encoder, options.pool);
    this.#maxMessageBytes = options.maxMessageBytes;
    this.#messageLimit = options.messageLimit;
    this.#convert = options.convert;
    this.#side = options.side;
    this.#arriving = options.convert === undefined ? options.decoder.arriving : undefined;
    this.#deframer = new Deframer(
      options.maxMessageBytes,
      options.pool,
      options.side,
      this.#arriving,
      options.messageLimit,
    );
    this.#turns = options.turns;
    this.#batched = options.batch && new BatchedStream(options.batch, (): void => this.#deliver());
    this.#account = options.openAccount?.(this);
    this.http2.on("error", (error: Error) => {
      this.lastError = error;
    });
    this.http2.on("aborted", () => this.#deliverBefore(() => this.onAborted()));
    // Not in `start`: if the peer has sent no message, node:http2 may emit "end" before.
    this.http2.on("end", () => this.onHttp2End());
    this.http2.on("close", () => {
      this.#account?.close();
      this.#deliverBefore(() => this.onClosed());
    });
  }

  get isWaitingForPeer(): boolean {
    return !this.#isBlocked() && this.#deframer.isInsideMessage;
  }

  get receivedChunks(): number {
    return this.#receivedChunks;
  }

  get unreportedBytes(): number {
    const { readableLength, writableLength } = this.http2;
    // Requests of a peer that does not read its responses count twice, so that such peers lose their streams first.
    const weight = this.#needsDrain ? 2 : 1;
    const readAhead = weight * (readableLength + (this.#readAhead?.overheadBytes ?? 0));
    return readAhead + this.#queuedBytes + writableLength + this.#outbox.bytes;
  }

  start(receiver: StreamReceiver<Received>): void {
    this.#receiver = onlyReceiver(this.#receiver, receiver);
    if (this.done) {
      process.nextTick(() => receiver.onClose(this.#failure));
      return;
    }
    this.http2.on("data", (chunk: Buffer) => this.#onData(chunk));
    if (this.peerEnded) {
      process.nextTick(() => this.#deliver());
    }
  }

  send(message: Sent): boolean {
    if (this.done || this.ended) {
      return true; // The message is dropped. `onClose` reports to the sender that the stream has ended.
    }
    this.#outbox.add(message);
    if (!this.#delivering && !this.#flushScheduled) {
      this.#flushScheduled = true;
      process.nextTick(this.#flushLater);
    }
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
    this.#release();
    if (this.#yielding) {
      return;
    }
    this.#resumes += 1;
    if (this.#resumes < resumesPerTurn) {
      this.#yielding = true;
      process.nextTick(this.#goOn);
    } else {
      this.#yield();
    }
  }

  recycle(): void {
    this.#recycles = true;
    if (this.#borrowed === undefined) {
      return;
    }
    this.#deframer.assembly.spare = this.#borrowed;
    this.#borrowed = undefined;
  }

  abstract end(): void;
  abstract abort(error: Error): void;

  /** Called when the peer has ended its side and all of its bytes have arrived. */
  protected onHttp2End(): void {
    this.peerEnded = true;
    this.#deliver();
  }

  /** Called when the peer has half-closed and all of its messages were delivered. */
  protected abstract onPeerEnd(receiver: StreamReceiver<Received>): void;
  /** Called when the next message is above the limit. Only if it is compressed, its bytes were buffered. */
  protected abstract onTooLarge(receiver: StreamReceiver<Received>, error: DmEnvRpcError): void;
  /** Called when node:http2 closes the stream while this side is open. */
  protected abstract onAborted(): void;
  /** Called when node:http2 has closed the stream. */
  protected abstract onClosed(): void;

  /** Drops buffered messages and calls the receiver's `onClose`, once, after every other callback. */
  protected finish(error: Error | undefined): void {
    if (this.done) {
      return;
    }
    this.done = true;
    this.#failure = error;
    this.#outbox.clear();
    const receiver = this.#receiver;
    if (receiver !== undefined) {
      // In a later tick, because another handler of the same receiver may be running.
      process.nextTick(() => receiver.onClose(error));
    }
    this.discard();
  }

  /** Reads and drops the peer's remaining bytes, so that flow control never blocks the peer. */
  protected discard(): void {
    this.discarding = true;
    this.#borrowed = undefined;
    this.#deframer.clear();
    this.#release();
    if (!this.http2.destroyed) {
      this.http2.resume();
    }
  }

  /** Ends the stream because of a limit, or because bytes cannot be read. */
  fail(error: Error): void {
    if (this.done) {
      this.http2.destroy(); // A peer that does not read does not receive the error either.
    } else {
      this.abort(error);
    }
  }

  /** Writes the pending messages in one write. */
  protected flush(): void {
    if (this.#outbox.bytes === 0 || this.http2.destroyed) {
      return;
    }
    // The bytes of this turn are not counted yet, even if they exceed a limit: a peer that reads takes them at once.
    if (this.http2.writableLength >= untakenBytes) {
      this.#account?.count();
    }
    const pieces = this.#outbox.take();
    const [first] = pieces;
    if (pieces.length === 1 && first !== undefined) {
      this.#write(first);
      return;
    }
    this.http2.cork();
    for (const piece of pieces) {
      this.#write(piece);
    }
    this.http2.uncork();
  }

  /**
   * Flushes. But while memory is tight and the peer has not read the last write, messages wait and then share one
   * write, because each write takes a kilobyte of objects.
   */
  #flushUnlessBlocked(): void {
    if (this.#account?.isTight !== true || this.http2.writableLength === 0) {
      this.flush();
    }
  }

  #write({ bytes, pooled }: Piece): void {
    if (pooled === undefined) {
      this.http2.write(bytes, this.#onWritten);
      return;
    }
    this.http2.write(bytes, (error) => {
      // node:http2 may still hold the bytes of a destroyed stream, so their buffer is not reused.
      if (!error && !this.http2.destroyed) {
        this.#pool.give(pooled);
      }
      this.#account?.countWritten();
      this.#onWritten();
    });
    this.#account?.countWritten();
  }

  /** Delivers a chunk that waits for the end of the turn before the end of the stream. */
  #deliverBefore(end: () => void): void {
    try {
      this.#batched?.deliver();
    } finally {
      end();
    }
  }

  /** Returns true if the stream may buffer more messages for its peer. */
  #hasRoom(): boolean {
    const unread = this.#outbox.bytes + this.http2.writableLength;
    return unread < lowWaterBytes || (unread < highWaterBytes && this.#account?.isTight !== true);
  }

  /** Drops the pending messages. */
  protected dropUnwritten(): void {
    this.#outbox.clear();
  }

  #onData(chunk: Buffer): void {
    if (this.done || this.discarding) {
      return;
    }
    this.#receivedChunks += 1;
    const isPiece = chunk.length < pieceBytes && this.#deframer.isInsideBody(chunk.length);
    this.#deframer.push(chunk);
    if (this.#isBlocked()) {
      // The chunk waits, too.
    } else if (this.#deframer.isChecking) {
      this.#deliverInTurn();
    } else if (this.#batched?.waits(chunk.length) !== true) {
      this.#deliver();
    }
    if (isPiece) {
      this.#countPiece();
    }
    if (this.#isBlocked()) {
      if (this.#paused) {
        this.#deframer.release();
      }
      this.#keepAccount();
      if (this.#deframer.bufferedBytes >= holdBytes) {
        this.#countReadAhead();
        this.http2.pause();
      }
    } else if (!this.discarding && this.#isBurstOver()) {
      this.#burst = 0;
      this.http2.pause();
      this.#yield();
    } else if (this.http2.readableLength === 0) {
      // Requests the next chunk now. node:stream itself would request it only in a later tick.
      this.http2.read(0);
    }
  }

  /**
   * Returns true once a burst of chunks has been read, after which other streams have a turn. Without pauses, node:http2
   * would emit all of its buffered chunks in one turn.
   */
  #isBurstOver(): boolean {
    if (this.http2.readableLength === 0) {
      return false;
    }
    this.#burst += 1;
    return this.#burst >= chunksPerBurst;
  }

  /** Delivers, unless the checks of large requests have taken too much of this turn: then the stream waits for a later turn. */
  #deliverInTurn(): void {
    const turns = this.#turns;
    if (turns === undefined) {
      this.#deliver();
      return;
    }
    const { share, key } = turns;
    const deliver = (): void => {
      share.count();
      this.#yielding = false;
      this.#deliver();
      share.count();
    };
    if (share.isOver) {
      this.#yielding = true;
      this.#deframer.release();
      // All chunks that wait are checked in one turn. The receiver may pause in that turn, before the stream is read again.
      this.#countReadAhead();
      this.http2.pause();
      share.wait(key, deliver);
    } else {
      deliver();
    }
  }

  get #queuedBytes(): number {
    return this.#receiver?.queuedBytes ?? 0;
  }

  #keepAccount(): void {
    if (this.discarding) {
      return;
    }
    this.#account?.hold(this.#deframer.bufferedBytes + this.#heldBytes);
    if (this.#queuedBytes >= holdBytes) {
      this.#account?.count();
    }
  }

  /** From now on, chunks that node:http2 reads ahead for a paused stream are counted as soon as they arrive. */
  #countReadAhead(): void {
    const account = this.#account;
    if (account !== undefined) {
      this.#readAhead ??= new ReadAhead(this.http2, {
        pieceBytes: prefixBytes, // A chunk of few bytes may be a whole request.
        onGrowth: () => account.count(),
        onPiece: () => this.#countPiece(),
      });
    }
  }

  /**
   * Counts a received chunk of a few bytes (`ByteAccount.piece`). After too many of them, resets the stream, because
   * more would arrive while it is open.
   */
  #countPiece(): void {
    if (this.done || this.#account?.piece() !== false) {
      return;
    }
    this.ended = true;
    this.finish(
      new DmEnvRpcError(
        "RESOURCE_EXHAUSTED",
        `message in too many pieces: expected DATA frames of ${pieceBytes} bytes or more, received thousands of smaller ones; send messages whole`,
        { origin: "client" },
      ),
    );
    this.http2.close(constants.NGHTTP2_ENHANCE_YOUR_CALM);
  }

  /** Stops counting a held message; buffered bytes are still counted. */
  #release(): void {
    this.#heldBytes = 0;
    this.#account?.hold(this.#deframer.bufferedBytes);
  }

  #isBlocked(): boolean {
    return this.#paused || this.#inflating || this.#yielding;
  }

  #yield(): void {
    if (this.#yielding) {
      return;
    }
    this.#yielding = true;
    this.#resumes = 0;
    setImmediate(this.#goOn);
  }

  #deliver(): void {
    const receiver = this.#receiver;
    if (receiver === undefined || this.#delivering || this.discarding || this.#isBlocked()) {
      return;
    }
    const deframer = this.#deframer;
    this.#delivering = true;
    try {
      const inflated = this.#inflated;
      if (inflated !== undefined) {
        this.#inflated = undefined;
        if (inflated instanceof Uint8Array) {
          this.#deliverBytes(receiver, inflated, 0, inflated.length);
        } else {
          deliverRefusal(receiver, inflated);
          this.#holdIfPaused(0);
        }
      }
      for (let count = 0; !this.discarding && !this.#isBlocked(); count += 1) {
        const isOver =
          count === messagesPerTurn ||
          (count === conversionsPerTurn && this.#convert !== undefined) ||
          (count === messagesPerWrite && this.#outbox.bytes > 0);
        if (isOver && deframer.bufferedBytes > 0) {
          this.#yield();
          break;
        }
        if (!deframer.next()) {
          const refusal = deframer.takeRefusal();
          if (refusal === undefined) {
            break;
          }
          deliverRefusal(receiver, refusal);
          this.#holdIfPaused(0);
          continue;
        }
        if (deframer.compressed) {
          this.#inflate(receiver, deframer.source.subarray(deframer.start, deframer.end));
        } else if (this.#convert !== undefined) {
          this.#deliverBytes(receiver, deframer.source, deframer.start, deframer.end);
        } else {
          const { source, start, end } = deframer;
          if (receiver.takesUnread === true) {
            receiver.onUnread?.(this.#unread.add(source, start, end));
            this.#holdIfPaused(end - start);
            continue;
          }
          const message = this.#decoder.read(source, start, end);
          if (deframer.assembled) {
            this.#alignment ??= new AlignmentLearner();
            this.#alignment.observe(message, end - start, source.buffer);
            deframer.assembly.lead = this.#alignment.lead;
            if (this.#recycles && message.case === "step") {
              this.#borrowed = source;
            }
          }
          receiver.onMessage(message, end - start);
          this.#holdIfPaused(end - start);
        }
      }
    } finally {
      this.#delivering = false;
    }
    if (this.#paused) {
      deframer.release();
    }
    this.#keepAccount();
    if (!this.discarding && !this.#isBlocked() && deframer.failure !== undefined) {
      this.#failReading(receiver, deframer.failure);
    }
    this.#flushUnlessBlocked();
    if (this.discarding || this.#isBlocked()) {
      return;
    }
    if (!this.peerEnded) {
      if (this.http2.isPaused()) {
        this.http2.resume();
      }
    } else if (!this.#toldEnd) {
      this.#toldEnd = true;
      if (deframer.isInsideMessage) {
        this.fail(
          new DmEnvRpcError("INTERNAL", "malformed gRPC frame: the stream ended inside a message", {
            origin: "connection",
          }),
        );
      } else {
        this.onPeerEnd(receiver);
      }
    }
  }

  /** Delivers the message from `start` to `end` of `source`, after its conversion. */
  #deliverBytes(
    receiver: StreamReceiver<Received>,
    source: Buffer,
    start: number,
    end: number,
  ): void {
    const converted = this.#convert?.(source, start, end);
    if (converted === undefined) {
      this.#unread.deliver(receiver, source, start, end);
      this.#holdIfPaused(end - start);
    } else if (converted instanceof Uint8Array) {
      this.#unread.deliver(receiver, converted, 0, converted.length);
      this.#holdIfPaused(converted.length);
    } else {
      deliverRefusal(receiver, converted);
      this.#holdIfPaused(0);
    }
  }

  /** Counts a message as held if the receiver paused during its delivery, because the receiver has then queued it. */
  #holdIfPaused(bytes: number): void {
    const isCounted = this.#receiver?.queuedBytes !== undefined;
    this.#heldBytes = this.#paused && !isCounted ? bytes : 0;
  }

  /** Handles the error of a message that cannot be read. No later message can be found. */
  #failReading(receiver: StreamReceiver<Received>, error: DmEnvRpcError): void {
    if (error.code === "RESOURCE_EXHAUSTED") {
      this.onTooLarge(receiver, error);
    } else {
      this.fail(error);
    }
  }

  #inflate(receiver: StreamReceiver<Received>, bytes: Buffer): void {
    const said = inflatedSize(
      bytes,
      this.encoding,
      this.#maxMessageBytes,
      this.#side,
      this.#messageLimit,
    );
    if (typeof said !== "number") {
      this.#failReading(receiver, said);
      return;
    }
    // A message that says that it is small may take long to inflate, and keeps its compressed bytes meanwhile.
    const neededBytes = Math.max(bytes.length, said);
    this.#heldBytes = neededBytes;
    this.#inflating = true;
    // If a limit is exceeded, a stream ends, this one or another, before memory for the inflated message is allocated.
    this.#keepAccount();
    if (this.#account === undefined) {
      this.#startInflating(bytes, () => {});
    } else {
      this.#account.inflateInTurn(neededBytes, (finished) => this.#startInflating(bytes, finished));
    }
  }

  #startInflating(bytes: Buffer, finished: () => void): void {
    if (this.discarding) {
      finished();
      return;
    }
    inflate(bytes, (result) => {
      if (this.discarding) {
        finished();
      } else if (isDmEnvRpcError(result)) {
        finished();
        this.#inflating = false;
        this.fail(result);
      } else {
        this.#checkInflated(result, finished);
      }
    });
  }

  /** Checks an inflated message, in several turns if it is large, and delivers it or its refusal. */
  #checkInflated(inflated: Buffer, finished: () => void): void {
    const onChecked = (refusal: Malformed | undefined): void => {
      finished();
      this.#inflating = false;
      if (!this.discarding) {
        // If the receiver has paused in the meantime, the message waits like any other message.
        this.#inflated = refusal ?? inflated;
        this.#deliver();
      }
    };
    const { length } = inflated;
    const check = length > checkedBytes ? this.#arriving?.(length) : undefined;
    if (check === undefined) {
      onChecked(undefined);
    } else {
      const isDropped = (): boolean => this.discarding;
      checkInTurns({ message: inflated, check, turns: this.#turns, isDropped, onChecked });
    }
  }

  /** Called after each write, because node:http2 emits "drain" only if 64 KiB or more were waiting. */
  readonly #onWritten = (): void => {
    if (this.#outbox.bytes > 0 && !this.#delivering && !this.#flushScheduled) {
      this.#flushUnlessBlocked();
    }
    if (!this.#needsDrain || this.done || this.ended || !this.#hasRoom()) {
      return;
    }
    this.#needsDrain = false;
    this.#receiver?.onDrain();
  };
}
