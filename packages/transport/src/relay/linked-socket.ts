// SPDX-License-Identifier: Apache-2.0
import type { MessageInitShape } from "@bufbuild/protobuf";
import type { Frame, FrameSchema } from "@dm-env-rpc/protocol/relay";
import { chunkOverheadBytes } from "../assembly/owned.ts";
import { goodbyeMs } from "../limits/limits.ts";
import {
  type Encoder,
  encoded,
  type Socket,
  type SocketEvents,
} from "../websocket/websocket-stream.ts";

/** Credit that each frame costs in addition to its content, in bytes, so that empty frames are bounded, too. */
const frameCostBytes = 64;

/** Size up to which a message is copied, because a view would keep the whole chunk with the message in memory. */
const smallBytes = 4 * 1024;

/** Maximum credit of a stream: the largest 32-bit value. */
const maxCredit = 2 ** 32 - 1;

/** Close code of a connection that was lost without a closing handshake. */
const abnormalClosure = 1006;

/** Content of a frame that is sent. */
export type FrameContent = NonNullable<
  Exclude<MessageInitShape<typeof FrameSchema>, Frame>["kind"]
>;

/** Returns the kind of a frame for an error. */
export function describeKind({ case: name }: Frame["kind"]): string {
  return name === undefined ? "a frame without a kind" : `"${name}"`;
}

/** Texts about a frame that breaks the protocol: what was expected, and what was received. */
type Violation = readonly [expected: string, received: string];

/** Options of a stream of a link. */
export interface LinkedSocketOptions {
  /** Bytes that this side may send before the peer grants more credit. */
  readonly credit: number;
  /** Bytes that the peer may send before this side grants more credit. */
  readonly windowBytes: number;
  /** Maximum content of a frame, in bytes. */
  readonly maxPartBytes: number;
  /** Maximum size of a received message, in bytes. */
  readonly maxMessageBytes: number;
  readonly later: Socket["later"];
  readonly send: (content: FrameContent) => void;
  /** Called when the stream is closed. Later frames with its number are ignored. */
  readonly onClosed: () => void;
}

/** A message that waits for credit, with the number of its bytes that have been sent. */
type Outgoing =
  | { readonly case: "message"; readonly bytes: Uint8Array; sent: number }
  | { readonly case: "text"; readonly text: string; readonly size: number };

/**
 * One stream of a link, as a WebSocket within the link's WebSocket.
 *
 * Outgoing messages wait for the peer's credit. Credit for received bytes is returned once it amounts to half a window.
 * While the socket is paused, no credit is returned.
 */
export class LinkedSocket implements Socket {
  readonly #options: LinkedSocketOptions;
  readonly later: Socket["later"];
  #events: SocketEvents | undefined;
  #credit: number;
  #queue: Outgoing[] = [];
  #queuedBytes = 0;
  /** Number of bytes that the peer may still send. */
  #granted: number;
  /** Credit for received bytes that has not been returned to the peer yet. */
  #unreturned = 0;
  #parts: Uint8Array[] = [];
  #partialBytes = 0;
  #isPaused = false;
  /** True once a message was too large: this message and all later messages are dropped. */
  #isDeaf = false;
  #closing: { readonly code: number; readonly reason: string } | undefined;
  #closeSent = false;
  #isClosed = false;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(options: LinkedSocketOptions) {
    this.#options = options;
    this.later = options.later;
    this.#credit = options.credit;
    this.#granted = options.windowBytes;
  }

  get bufferedBytes(): number {
    return this.#queuedBytes;
  }

  get partialBytes(): number {
    return this.#partialBytes + this.#parts.length * chunkOverheadBytes;
  }

  start(events: SocketEvents): void {
    this.#events = events;
  }

  sendBinary(bytes: Uint8Array): void {
    this.#enqueue({ case: "message", bytes, sent: 0 }, bytes.length);
  }

  sendMessage<T>(message: T, encoder: Encoder<T>): void {
    this.sendBinary(encoded(message, encoder));
  }

  sendText(text: string): void {
    const size = new TextEncoder().encode(text).length;
    this.#enqueue({ case: "text", text, size }, size);
  }

  pause(): void {
    this.#isPaused = true;
  }

  resume(): void {
    this.#isPaused = false;
    this.#grant();
  }

  close(code: number, reason: string): void {
    if (this.#closing === undefined && !this.#isClosed) {
      this.#closing = { code, reason };
      this.#pump();
    }
  }

  terminateSoon(): void {
    if (this.#isClosed) {
      return;
    }
    this.#timer ??= setTimeout(() => {
      this.#sendClose(this.#closing ?? { code: abnormalClosure, reason: "" });
      this.#finish(abnormalClosure, "");
    }, goodbyeMs);
  }

  /**
   * Receives a frame of the stream.
   *
   * @returns The violation if the frame breaks the protocol; otherwise undefined.
   */
  take(kind: Frame["kind"]): Violation | undefined {
    switch (kind.case) {
      case "part":
      case "message":
        if (kind.case === "part" && kind.value.length === 0) {
          return ["parts with content", "an empty part"];
        }
        return this.#takeContent(kind.value.length, () => this.#takeBytes(kind));
      case "text":
        // A text costs the bytes of its UTF-8, as it was sent.
        return this.#takeContent(new TextEncoder().encode(kind.value).length, () =>
          this.#events?.onText(kind.value),
        );
      case "credit":
        if (this.#credit + kind.value > maxCredit) {
          return [`credit of at most ${maxCredit} bytes`, "more"];
        }
        this.#credit += kind.value;
        this.#pump();
        return undefined;
      case "close":
        this.#sendClose(kind.value);
        this.#finish(kind.value.code, kind.value.reason);
        return undefined;
      default:
        return ["a frame kind that the protocol defines for a stream", describeKind(kind)];
    }
  }

  /** Closes the stream without notifying the peer, whose connection is lost. */
  lose(code: number, reason: string): void {
    this.#closeSent = true;
    this.#finish(code, reason);
  }

  #takeContent(size: number, deliver: () => void): Violation | undefined {
    const cost = size + frameCostBytes;
    if (cost > this.#granted) {
      return [`frames of at most ${this.#granted} bytes of credit`, `a frame of ${cost}`];
    }
    this.#granted -= cost;
    this.#unreturned += cost;
    if (!this.#isDeaf) {
      deliver();
      this.#grant();
    }
    return undefined;
  }

  #takeBytes({ case: kind, value }: Extract<Frame["kind"], { case: "message" | "part" }>): void {
    if (this.#partialBytes + value.length > this.#options.maxMessageBytes) {
      this.#isDeaf = true;
      this.#forgetParts();
      this.#events?.onTooLarge();
      return;
    }
    if (kind === "part") {
      this.#parts.push(new Uint8Array(value)); // Not `slice`, which copies nothing of a Buffer.
      this.#partialBytes += value.length;
      this.#events?.onPartial();
      return;
    }
    if (this.#parts.length === 0) {
      const message = value.length > smallBytes ? value : new Uint8Array(value);
      this.#events?.onBinary(message, 0, message.length);
      return;
    }
    const whole = new Uint8Array(this.#partialBytes + value.length);
    let offset = 0;
    for (const part of this.#parts) {
      whole.set(part, offset);
      offset += part.length;
    }
    whole.set(value, offset);
    this.#forgetParts();
    this.#events?.onBinary(whole, 0, whole.length);
  }

  #forgetParts(): void {
    this.#parts = [];
    this.#partialBytes = 0;
    this.#events?.onPartial();
  }

  /** Returns credit for received bytes to the peer, once it amounts to half a window. */
  #grant(): void {
    if (this.#isPaused || this.#isClosed || this.#unreturned < this.#options.windowBytes / 2) {
      return;
    }
    const credit = this.#unreturned;
    this.#unreturned = 0;
    this.#granted += credit;
    this.#options.send({ case: "credit", value: credit });
  }

  #enqueue(message: Outgoing, size: number): void {
    if (this.#isClosed || this.#closing !== undefined) {
      return;
    }
    this.#queue.push(message);
    this.#queuedBytes += size + frameCostBytes;
    this.#pump();
  }

  /** Sends as many queued messages as the credit allows. */
  #pump(): void {
    const queued = this.#queuedBytes;
    let next = 0;
    for (let message = this.#queue[next]; message !== undefined; message = this.#queue[next]) {
      if (!this.#sendSome(message)) {
        break;
      }
      next += 1;
    }
    if (this.#isClosed) {
      return; // If the peer does not read, `send` has closed the link, and with it this stream.
    }
    if (next > 0) {
      this.#queue.splice(0, next);
    }
    if (this.#closing !== undefined && this.#queue.length === 0) {
      this.#sendClose(this.#closing);
    }
    if (this.#queuedBytes < queued) {
      this.#events?.onDrain();
    }
  }

  /** Sends as much of a message as the credit allows. Returns true if the whole message was sent. */
  #sendSome(message: Outgoing): boolean {
    const { send, maxPartBytes } = this.#options;
    if (message.case === "text") {
      if (this.#credit < message.size + frameCostBytes) {
        return false;
      }
      this.#credit -= message.size + frameCostBytes;
      this.#queuedBytes -= message.size + frameCostBytes;
      send({ case: "text", value: message.text });
      return true;
    }
    while (this.#credit >= frameCostBytes && !this.#isClosed) {
      const left = message.bytes.length - message.sent;
      const size = Math.min(left, maxPartBytes, this.#credit - frameCostBytes);
      if (size === 0 && left > 0) {
        return false;
      }
      const value = message.bytes.subarray(message.sent, message.sent + size);
      message.sent += size;
      this.#credit -= size + frameCostBytes;
      this.#queuedBytes -= size;
      if (size === left) {
        this.#queuedBytes -= frameCostBytes;
        send({ case: "message", value });
        return true;
      }
      send({ case: "part", value });
    }
    return false;
  }

  #sendClose(close: { readonly code: number; readonly reason: string }): void {
    if (this.#closeSent) {
      return;
    }
    this.#closeSent = true;
    this.#options.send({ case: "close", value: { code: close.code, reason: close.reason } });
  }

  #finish(code: number, reason: string): void {
    if (this.#isClosed) {
      return;
    }
    this.#isClosed = true;
    clearTimeout(this.#timer);
    this.#queue = [];
    this.#queuedBytes = 0;
    this.#parts = [];
    this.#partialBytes = 0;
    this.#options.onClosed();
    this.#events?.onClose(code, reason);
  }
}
