// SPDX-License-Identifier: Apache-2.0
// The link between a relay and a program that dialled out to it (docs/protocol-notes.md, "Relay").
// Runs in every JavaScript runtime, because pages use it, too.
import { create, fromBinary, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import {
  type Frame,
  FrameSchema,
  type Hello,
  type HelloSchema,
  type Open,
  type OpenSchema,
  type Welcome,
  type WelcomeSchema,
} from "@dm-env-rpc/protocol/relay";
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import type { ByteAccount, ByteHolder } from "../limits/buffered-bytes.ts";
import { holdBytes, mostPieces } from "../limits/limits.ts";
import {
  closeCodeOf,
  closeReasonOf,
  errorOfClose,
  readStatusMessage,
  statusMessageOf,
} from "../websocket/protocol.ts";
import type { Socket } from "../websocket/websocket-stream.ts";
import { describeKind, type FrameContent, LinkedSocket } from "./linked-socket.ts";

/** Path of a relay at which programs dial in. */
export const relayPath = "/dm_env_rpc.relay.v1";

/** Sub-protocol of the WebSocket between a program and a relay. */
export const relaySubprotocol = "dm_env_rpc.relay.v1";

/**
 * Credit that each side grants at the start of a stream, in bytes. A side buffers at most this much for a reader that
 * has stopped.
 */
const windowBytes = 256 * 1024;

/** Minimum credit that a peer must grant, so that a text message fits. */
const minWindowBytes = 64 * 1024;

/** Maximum size of a frame's content, in bytes, so that no stream delays the other streams for long. */
const maxPartBytes = 64 * 1024;

/** Maximum size of a frame, in bytes. */
export const maxFrameBytes: number = 2 * maxPartBytes;

/** Maximum size of the first frame, in bytes: the peer has not shown a token yet. */
const maxIntroductionBytes = 16 * 1024;

/** Highest stream number. */
const maxStreamNumber = 2 ** 32 - 1;

/** Options and event handlers of one side of a link. Handlers are called synchronously and must not throw. */
export interface LinkOptions {
  /** An open WebSocket that has not been started. */
  readonly socket: Socket;
  /** This side. The relay opens streams, and the program accepts streams. */
  readonly side: "relay" | "program";
  /** Name of the other side in errors. */
  readonly peerName: string;
  /** Maximum size of a message on a stream, in bytes. */
  readonly maxMessageBytes: number;
  /**
   * Maximum number of bytes that wait for a peer that does not read; above the limit, the link fails. Default: limited
   * only by the streams' credit.
   */
  readonly maxUnsentBytes?: number | undefined;
  /** Opens an account of the link's undelivered bytes. Default: none. */
  readonly openAccount?: ((holder: ByteHolder) => ByteAccount) | undefined;
  /** Called when the program has introduced itself. No stream opens before. */
  readonly onHello?: ((hello: Hello) => void) | undefined;
  /** Called when the relay has accepted the program. */
  readonly onWelcome?: ((welcome: Welcome) => void) | undefined;
  /** Called when the relay has opened a stream. `socket` behaves like a separate WebSocket. */
  readonly onOpen?: ((open: Open, socket: Socket) => void) | undefined;
  /** Called when a frame has arrived, with its bytes. */
  readonly onActivity: (bytes: number) => void;
  /** Called when the link, and with it every stream, is closed. Always the last event. */
  readonly onClose: (error: DmEnvRpcError) => void;
}

/**
 * One WebSocket between a relay and a program, and the streams that it carries.
 *
 * Each stream is a WebSocket within the WebSocket, with credit of its own. So a reader that stops delays no other
 * stream, and the bytes that wait for this reader are bounded.
 */
export class Link {
  readonly #options: LinkOptions;
  readonly #account: ByteAccount | undefined;
  readonly #streams = new Map<number, LinkedSocket>();
  /** Number of the latest stream. */
  #last = 0;
  /** Credit with which each stream starts; undefined until the peer has introduced itself. */
  #peerWindow: number | undefined;
  #explained: string | undefined;
  #isClosed = false;

  constructor(options: LinkOptions) {
    this.#options = options;
    const { socket } = options;
    this.#account = options.openAccount?.({
      isWaitingForPeer: false, // Pings detect a peer that stalls.
      get unreportedBytes() {
        return socket.bufferedBytes + socket.partialBytes;
      },
      fail: (error) => this.close(error), // If the peer does not read, its connection is cut after a second.
    });
    socket.start({
      onBinary: (source, start, end) => this.#onBinary(source.subarray(start, end)),
      onText: (text) => {
        this.#explained = readStatusMessage(text);
      },
      onDrain: () => {},
      onPartial: () => {},
      onRefusal: ({ value }) => this.#violated("a frame that can be decoded", value.message),
      onTooLarge: () =>
        this.#violated(`a frame of at most ${maxFrameBytes} bytes`, "a larger frame"),
      onTooManyPieces: () => this.#violated(`at most ${mostPieces}`, "more"),
      onClose: (code, reason) => {
        this.#account?.close();
        this.#onClose(code, reason);
      },
    });
  }

  /** Number of open streams. */
  get streams(): number {
    return this.#streams.size;
  }

  /** Bytes that wait for a peer that does not read. */
  get unsentBytes(): number {
    return this.#options.socket.bufferedBytes;
  }

  /** Introduces a program to its relay. */
  hello(hello: Omit<MessageInitShape<typeof HelloSchema>, "$typeName">): void {
    this.#send(0, { case: "hello", value: { ...hello, windowBytes } });
  }

  /** Accepts a program that has introduced itself. */
  welcome(welcome: Omit<MessageInitShape<typeof WelcomeSchema>, "$typeName">): void {
    this.#send(0, { case: "welcome", value: { ...welcome, windowBytes } });
  }

  /** Requests a sign of life from the program. */
  ping(): void {
    this.#send(0, { case: "ping", value: {} });
  }

  /**
   * Opens a stream to the program.
   *
   * @returns The stream's WebSocket; undefined if the program has not introduced itself, or if the link is closed or
   *   has used all stream numbers.
   */
  open(open: Omit<MessageInitShape<typeof OpenSchema>, "$typeName">): Socket | undefined {
    if (this.#isClosed || this.#peerWindow === undefined || this.#last === maxStreamNumber) {
      return undefined;
    }
    this.#last += 1;
    this.#send(this.#last, { case: "open", value: open });
    // `#send` closes the link if too many bytes wait for the peer.
    return this.#isClosed ? undefined : this.#add(this.#last, this.#peerWindow);
  }

  /** Closes the link and its streams. The peer receives the error's code and message. */
  close(error: DmEnvRpcError): void {
    if (this.#isClosed) {
      return;
    }
    const { socket } = this.#options;
    socket.sendText(statusMessageOf(error));
    socket.close(closeCodeOf(error), closeReasonOf(error));
    socket.terminateSoon();
    this.#finish(error);
  }

  #onBinary(bytes: Uint8Array): void {
    if (this.#isClosed) {
      return;
    }
    if (this.#peerWindow === undefined && bytes.length > maxIntroductionBytes) {
      const received = `${bytes.length} bytes`;
      this.#violated(`an introduction of at most ${maxIntroductionBytes} bytes`, received);
      return;
    }
    let frame: Frame;
    try {
      frame = fromBinary(FrameSchema, bytes, { readUnknownFields: false });
    } catch {
      this.#violated("a relay.v1.Frame in each binary message", `${bytes.length} other bytes`);
      return;
    }
    this.#options.onActivity(bytes.length);
    const { side } = this.#options;
    const { stream: number, kind } = frame;
    if (number === 0) {
      this.#onLinkFrame(kind);
      return;
    }
    if (kind.case === "open" && side === "program" && this.#peerWindow !== undefined) {
      if (number <= this.#last) {
        this.#violated(`a stream number above ${this.#last}`, String(number));
        return;
      }
      this.#last = number;
      this.#options.onOpen?.(kind.value, this.#add(number, this.#peerWindow));
      return;
    }
    const stream = this.#streams.get(number);
    if (stream === undefined) {
      if (number > this.#last) {
        this.#violated("frames of streams that were opened", `a frame of stream ${number}`);
      }
      return; // The stream was closed here while the frame was in transit.
    }
    const broken = stream.take(kind);
    if (broken !== undefined) {
      this.#violated(...broken);
    }
  }

  #onLinkFrame(kind: Frame["kind"]): void {
    const { side, onHello, onWelcome } = this.#options;
    const introduction = side === "relay" ? "hello" : "welcome";
    if ((kind.case === introduction) !== (this.#peerWindow === undefined)) {
      this.#violated(`one "${introduction}" as the first frame`, describeKind(kind));
      return;
    }
    switch (kind.case) {
      case "hello":
      case "welcome":
        if (kind.case !== introduction) {
          break;
        }
        if (kind.value.windowBytes < minWindowBytes) {
          const received = String(kind.value.windowBytes);
          this.#violated(`window_bytes of at least ${minWindowBytes}`, received);
          return;
        }
        this.#peerWindow = kind.value.windowBytes;
        if (kind.case === "hello") {
          onHello?.(kind.value);
        } else {
          onWelcome?.(kind.value);
        }
        return;
      case "ping":
        if (side === "program") {
          this.#send(0, { case: "pong", value: {} });
          return;
        }
        break;
      case "pong":
        if (side === "relay") {
          return;
        }
        break;
      default:
        break;
    }
    this.#violated("a frame kind that the protocol defines for the connection", describeKind(kind));
  }

  #add(number: number, credit: number): LinkedSocket {
    const { socket, maxMessageBytes } = this.#options;
    const stream = new LinkedSocket({
      credit,
      windowBytes,
      maxPartBytes,
      maxMessageBytes,
      later: socket.later,
      send: (kind) => this.#send(number, kind),
      onClosed: () => this.#streams.delete(number),
    });
    this.#streams.set(number, stream);
    return stream;
  }

  #send(stream: number, kind: FrameContent): void {
    if (this.#isClosed) {
      return;
    }
    const { socket, peerName, maxUnsentBytes = Number.POSITIVE_INFINITY } = this.#options;
    if (socket.bufferedBytes > maxUnsentBytes) {
      this.close(
        new DmEnvRpcError(
          "RESOURCE_EXHAUSTED",
          `${peerName} does not read: more than ${maxUnsentBytes} bytes wait for it`,
        ),
      );
      return;
    }
    if (socket.bufferedBytes >= holdBytes) {
      this.#account?.count();
    }
    if (this.#isClosed) {
      return; // The account has ended the link.
    }
    socket.sendBinary(toBinary(FrameSchema, create(FrameSchema, { stream, kind })));
  }

  #violated(expected: string, received: string): void {
    this.close(
      new DmEnvRpcError(
        "INVALID_ARGUMENT",
        `broken relay protocol: expected ${expected}, received ${received}; check the peer's version`,
      ),
    );
  }

  #onClose(code: number, reason: string): void {
    const { side, peerName } = this.#options;
    const error = errorOfClose(
      side === "relay" ? "server" : "client",
      peerName,
      code,
      reason,
      this.#explained,
    );
    this.#finish(
      error ??
        new DmEnvRpcError("UNAVAILABLE", `${peerName} closed the connection`, {
          origin: "connection",
        }),
    );
  }

  #finish(error: DmEnvRpcError): void {
    if (this.#isClosed) {
      return;
    }
    this.#isClosed = true;
    for (const stream of [...this.#streams.values()]) {
      stream.lose(lostCode, closeReasonOf(error));
    }
    this.#options.onClose(error);
  }
}

/** Close code of streams whose link is closed ("going away"). */
const lostCode = 1001;
