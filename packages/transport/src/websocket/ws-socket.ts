// SPDX-License-Identifier: Apache-2.0
import type { Duplex } from "node:stream";
import { WebSocket } from "ws";
import type { Arriving } from "../assembly/assembly.ts";
import type { BufferPool } from "../assembly/buffer-pool.ts";
import { later } from "../internal/turns/later.ts";
import type { CheckTurns, ThreadShare } from "../internal/turns/thread-share.ts";
import { goodbyeMs, maxFragments, maxFrameReads } from "../limits/limits.ts";
import { BinaryFrames } from "./binary-frames.ts";
import { FrameReader } from "./frame-reader.ts";
import { LibraryMessages } from "./library-messages.ts";
import { messageTooBig } from "./protocol.ts";
import type { Socket, SocketEvents } from "./websocket-stream.ts";

/**
 * Maximum number of messages per write. With many requests in flight, the peer thus works on the first
 * responses while this side works on the remaining requests.
 */
const messagesPerWrite = 32;

/** A chunk of at least this many bytes may be the start of a large message: it waits for a turn. */
const largeBytes = 8 * 1024;

/** Options of the library `ws` for both sides. */
export const wsOptions = {
  // Observations are mostly pixels and floats; compressing them costs far more than it saves.
  perMessageDeflate: false,
  // `ws` validates the UTF-8 of text messages, which are rare.
  skipUTF8Validation: false,
  maxFragments: maxFragments as number,
  maxBufferedChunks: maxFrameReads as number,
} as const;

/** The codes with which `ws` closes after a message that exceeds a limit: `maxPayload` (1009), or another of `wsOptions` (1008). */
const limitCloses: readonly (number | undefined)[] = [messageTooBig, 1008];

/**
 * A WebSocket of `ws` that does not close after a message that exceeds a limit, because the stream closes it, with an error
 * that names the limit. If the message is too large, the stream first answers earlier requests. `ws` drops later messages.
 */
export class PatientWebSocket extends WebSocket {
  /** Writes pending messages. Called before each close frame, even if the frame answers the peer's close. */
  flush: () => void = () => {};

  override close(code?: number, reason?: string | Buffer): void {
    // With these codes, only `ws` itself passes no reason.
    if (reason !== undefined || !limitCloses.includes(code)) {
      this.flush();
      super.close(code, reason);
    }
  }
}

/** The errors of `ws` about frames above `maxPayload`, and above 2^53 bytes. */
const tooLargeCodes = [
  "WS_ERR_UNSUPPORTED_MESSAGE_LENGTH",
  "WS_ERR_UNSUPPORTED_DATA_PAYLOAD_LENGTH",
];

/** Returns true for an error of `ws` about a frame that is too large. */
export function isTooLarge(error: Error): boolean {
  return "code" in error && tooLargeCodes.includes(String(error.code));
}

function isTooManyPieces(error: Error): boolean {
  return "code" in error && error.code === "WS_ERR_TOO_MANY_BUFFERED_PARTS";
}

/** Cuts a WebSocket that is closing if its peer does not answer the close within `goodbyeMs`. */
function terminateSoon(webSocket: WebSocket): void {
  const timer = setTimeout(() => webSocket.terminate(), goodbyeMs).unref();
  webSocket.once("close", () => clearTimeout(timer));
}

/** An open WebSocket of the library `ws`, of which no message has been read yet. */
export interface WsSocketOptions {
  readonly webSocket: PatientWebSocket;
  /** Network connection of the WebSocket. */
  readonly network: Duplex;
  /** The side that sends. */
  readonly side: "client" | "server";
  /** The `maxPayload` of the WebSocket. */
  readonly maxMessageBytes: number;
  /** Memory for the first bytes of large messages. */
  readonly pool: BufferPool;
  /** Starts to check a large message. Default: messages are not checked. */
  readonly arriving?: Arriving | undefined;
  /** Shares the thread among all WebSockets and streams that check large messages. Default: a WebSocket does not wait for others. */
  readonly turns?: CheckTurns | undefined;
}

/**
 * Wraps a WebSocket of the library `ws`, as soon as it is open. The library handles handshakes, control frames, texts,
 * and fragmented messages. All other messages bypass the library.
 */
export function wsSocket(options: WsSocketOptions): Socket {
  const { webSocket, network, side, maxMessageBytes, turns } = options;
  webSocket.binaryType = "nodebuffer";
  const frames = new BinaryFrames(side === "client");
  let isFlushScheduled = false;
  const flush = (): void => {
    const isOpen = webSocket.readyState === WebSocket.OPEN;
    if (frames.count === 0 || !isOpen) {
      frames.clear();
      return;
    }
    const pieces = frames.take();
    const last = pieces.length - 1;
    network.cork();
    for (const [index, piece] of pieces.entries()) {
      network.write(piece, index === last ? onSent : undefined);
    }
    network.uncork();
  };
  webSocket.flush = flush;
  const flushLater = (): void => {
    isFlushScheduled = false;
    flush();
  };
  const flushSoon = (): void => {
    if (frames.count === messagesPerWrite) {
      flush();
    } else if (!isFlushScheduled) {
      isFlushScheduled = true;
      process.nextTick(flushLater);
    }
  };
  let events: SocketEvents | undefined;
  const onSent = (): void => events?.onDrain();

  const [library] = network.listeners("data").slice(-1);
  const reader = new FrameReader({
    isMasked: side === "server",
    maxMessageBytes,
    pool: options.pool,
    arriving: options.arriving,
    onMessage: (chunk, start, end) => events?.onBinary(chunk, start, end),
    onRefusal: (refusal) => events?.onRefusal(refusal),
    onOther: (bytes) => library?.call(network, bytes),
    onPiece: () => events?.onPiece?.(),
    onBehind: () => {
      network.pause();
      readOnLater();
    },
  });
  let willReadOn = false;
  const readOnLater = (): void => {
    if (willReadOn) {
      return;
    }
    willReadOn = true;
    const mayCheck = reader.isChecking || reader.heldBytes >= largeBytes;
    if (turns === undefined || !(mayCheck || turns.share.isOver)) {
      later(readOn);
      return;
    }
    const { share, key } = turns;
    share.count();
    share.wait(key, () => {
      readOn();
      share.count();
    });
  };
  const readOn = (): void => {
    willReadOn = false;
    reader.readOn();
    events?.onPartial();
    if (!reader.isBehind && !webSocket.isPaused) {
      network.resume();
    }
  };
  const pushInTurn = (chunk: Buffer, share: ThreadShare): void => {
    if (share.isOver) {
      reader.hold();
      reader.push(chunk);
    } else {
      share.count();
      reader.push(chunk);
      share.count();
    }
  };
  const onData = (chunk: Buffer): void => {
    if (turns !== undefined && (reader.isChecking || chunk.length >= largeBytes)) {
      pushInTurn(chunk, turns.share);
    } else {
      reader.push(chunk);
    }
    events?.onPartial();
  };
  if (side === "server") {
    // Drops the bytes that a closed socket has buffered. The library would parse them all in one turn, although the
    // stream would drop their messages.
    network.prependListener("close", () => network.read());
  }
  network.on("data", onData);
  network.off("data", library as () => void);

  let isPaused = false;
  const stopReading = (): void => {
    reader.pause();
    webSocket.pause();
  };
  const goOnReading = (): void => {
    reader.resume();
    webSocket.resume();
    if (reader.isBehind) {
      network.pause();
    }
    readOnLater();
  };
  let messages: LibraryMessages | undefined;
  const checkedMessages = (events: SocketEvents): LibraryMessages | undefined =>
    options.arriving &&
    turns &&
    new LibraryMessages({
      arriving: options.arriving,
      turns,
      events,
      onCheck: stopReading,
      onChecked: () => {
        events.onPartial();
        if (!isPaused) {
          goOnReading();
        }
      },
    });

  return {
    get bufferedBytes() {
      return webSocket.bufferedAmount + frames.bytes;
    },
    get isBehind() {
      return reader.isBehind || messages?.isChecking === true;
    },
    get partialBytes() {
      return reader.partialBytes + (messages?.bytes ?? 0);
    },
    start(started) {
      events = started;
      messages = checkedMessages(started);
      webSocket.on("message", (data: Buffer, isBinary: boolean) => {
        if (!isBinary) {
          started.onText(data.toString());
        } else if (messages === undefined) {
          started.onBinary(data, 0, data.length);
        } else {
          messages.push(data);
        }
      });
      webSocket.on("error", (error) => {
        reader.close();
        if (isTooLarge(error)) {
          started.onTooLarge();
        } else if (isTooManyPieces(error) && started.onTooManyPieces !== undefined) {
          started.onTooManyPieces();
        } else {
          webSocket.close(); // Has no effect if the library has closed it already.
          terminateSoon(webSocket); // `ws` would wait 30 s for the peer to close its side.
        }
      });
      webSocket.on("close", (code: number, reason: Buffer) => {
        reader.close();
        messages?.close();
        started.onClose(code, reason.toString());
      });
    },
    sendBinary(bytes) {
      frames.add(bytes);
      flushSoon();
    },
    sendMessage(message, encoder) {
      frames.encode(message, encoder);
      flushSoon();
    },
    sendText(text) {
      flush();
      webSocket.send(text, { binary: false }, onSent);
    },
    pause() {
      isPaused = true;
      stopReading();
    },
    resume() {
      isPaused = false;
      if (messages?.isChecking !== true) {
        goOnReading();
      }
    },
    close(code, reason) {
      reader.drop();
      if (messages?.isChecking === true) {
        messages.close();
        if (!isPaused) {
          goOnReading(); // So that the peer's close is read.
        }
      }
      webSocket.close(code, reason);
    },
    terminateSoon: () => terminateSoon(webSocket),
    later,
  };
}
