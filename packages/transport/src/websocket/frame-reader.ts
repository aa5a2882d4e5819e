// SPDX-License-Identifier: Apache-2.0
import { mask } from "./mask.ts";

const finalBinary = 0x82;
const finalPing = 0x89;
const finalPong = 0x8a;
const finalBit = 0x80;
const opcodeBits = 0x0f;
const closeOpcode = 0x8;
/** Lowest opcode of a control frame. Control frames do not belong to a message. */
const firstControlOpcode = 0x8;
const maskBit = 0x80;
const lengthBits = 0x7f;
const maskBytes = 4;
const maxControlBytes = 125;

/** Maximum units of work in a turn of the event loop. A dropped frame takes one unit. */
const workPerTurn = 4096;
/** Units of work of a frame that the library `ws` handles. */
const libraryWork = 64;

/** Options of a frame reader. */
export interface FrameReaderOptions {
  /** True if received frames are masked, as the frames of clients are. */
  readonly isMasked: boolean;
  /** Size limit of a message. */
  readonly maxMessageBytes: number;
  /** Called when a message has arrived: the bytes of `chunk` from `start` to `end`. */
  readonly onMessage: (chunk: Uint8Array, start: number, end: number) => void;
  /** Called with the bytes of other frames, in order. A frame may arrive in several parts. */
  readonly onOther: (bytes: Uint8Array) => void;
  /** Called when bytes are held. The network should not be read until `readOn` has been called. */
  readonly onBehind: () => void;
}

/**
 * Reads the frames of a WebSocket (RFC 6455, section 5.2) before the library `ws` does, because `ws` makes a buffer, a
 * write and two events for each frame.
 *
 * The reader delivers binary messages that arrive whole in one chunk and are under 64 KiB, and leaves all other frames
 * to the library. After a frame that may break the protocol, it leaves all later frames to the library, too.
 *
 * The reader holds the rest of a chunk undecoded while it is paused, or once the frames of a turn have taken
 * `workPerTurn` units of work. Decoded messages of a few bytes would take many times the memory of their frames.
 */
export class FrameReader {
  readonly #options: FrameReaderOptions;
  /** Bytes received of an incomplete message. */
  #partialBytes = 0;
  /** Chunks that have not been read yet. */
  #held: Buffer[] = [];
  /** True while chunks are held instead of read. */
  #isHolding = false;
  #isPaused = false;
  /** True once all frames except the close frame are dropped. */
  #isDropping = false;
  /** True if the current frame is dropped. */
  #isDropped = false;
  #work = 0;
  /** True until all frames are left to the library. */
  #isDirect = true;
  #isClosed = false;
  /** Bytes of the current frame's header so far, if the frame is passed to the library or dropped. */
  #header: number[] = [];
  /** Number of bytes of this frame's body that have not arrived; undefined until the header is complete. */
  #left: number | undefined;

  constructor(options: FrameReaderOptions) {
    this.#options = options;
  }

  /** Received bytes of an incomplete message, plus held bytes. */
  get partialBytes(): number {
    return this.#held.reduce((sum, { length }) => sum + length, this.#partialBytes);
  }

  /** True while the reader holds bytes, which `readOn` will read. */
  get isBehind(): boolean {
    return this.#held.length > 0;
  }

  /** Reads a chunk. */
  push(chunk: Buffer): void {
    if (this.#isHolding) {
      this.#hold(chunk);
    } else {
      this.#read(chunk);
    }
  }

  /** Holds later chunks, and the rest of the current chunk. */
  pause(): void {
    this.#isPaused = true;
    this.#isHolding = true;
  }

  /** Ends a pause. `readOn` reads the held bytes. */
  resume(): void {
    this.#isPaused = false;
  }

  /** Reads the held bytes, unless the reader is paused. Call it in a later turn of the event loop. */
  readOn(): void {
    if (this.#isPaused) {
      return;
    }
    this.#isHolding = false;
    this.#work = 0;
    const held = this.#held;
    this.#held = [];
    for (const chunk of held) {
      this.push(chunk);
    }
  }

  /** Drops all frames from now on, except the close frame. */
  drop(): void {
    this.#isDropping = true;
    this.#partialBytes = 0;
  }

  /** Drops all later chunks. */
  close(): void {
    this.#isClosed = true;
    this.#held = [];
    this.#partialBytes = 0;
  }

  #read(chunk: Buffer): void {
    let at = 0;
    while (at < chunk.length && !this.#isClosed) {
      if (this.#isHolding) {
        this.#hold(chunk.subarray(at));
        return;
      }
      at = this.#readMessage(chunk, at) ?? this.#passOn(chunk, at);
    }
  }

  #hold(chunk: Buffer): void {
    if (!this.#isClosed) {
      this.#held.push(chunk);
      this.#options.onBehind();
    }
  }

  #countWork(work: number): void {
    this.#work += work;
    if (this.#work >= workPerTurn) {
      this.#isHolding = true;
    }
  }

  /** Delivers the message at `start`. Returns its end; undefined if the library must read it. */
  #readMessage(chunk: Buffer, start: number): number | undefined {
    if (
      !this.#isDirect ||
      this.#isDropping ||
      this.#header.length > 0 ||
      chunk[start] !== finalBinary
    ) {
      return undefined;
    }
    const { isMasked, maxMessageBytes, onMessage } = this.#options;
    const second = chunk[start + 1] ?? 0;
    let length = second & lengthBits;
    let at = start + 2;
    if (second >= maskBit !== isMasked || length === 127) {
      return undefined;
    }
    if (length === 126) {
      length = ((chunk[at] ?? 0) << 8) | (chunk[at + 1] ?? 0);
      at += 2;
    }
    const body = isMasked ? at + maskBytes : at;
    const end = body + length;
    if (end > chunk.length || length > maxMessageBytes) {
      return undefined;
    }
    if (isMasked) {
      mask(chunk, body, end, chunk, at);
    }
    onMessage(chunk, body, end);
    return end;
  }

  /**
   * Passes the received part of the frame at `start` to the library, or drops it. Returns the position after that part.
   */
  #passOn(chunk: Buffer, start: number): number {
    let at = start;
    if (this.#header.length === 0) {
      const opcode = (chunk[start] ?? 0) & opcodeBits;
      this.#isDropped = this.#isDropping && opcode !== closeOpcode;
      this.#countWork(this.#isDropped ? 1 : libraryWork);
    }
    while (this.#left === undefined && at < chunk.length) {
      this.#header.push(chunk[at] ?? 0);
      at += 1;
      this.#left = bodyLength(this.#header);
      if (this.#left !== undefined && !this.#isPlain(this.#left)) {
        this.#isDirect = false;
      }
    }
    const taken = Math.min(this.#left ?? 0, chunk.length - at);
    at += taken;
    this.#count(at - start, taken);
    if (!this.#isDropped) {
      this.#options.onOther(at - start === chunk.length ? chunk : chunk.subarray(start, at));
    }
    return at;
  }

  /** Returns true if the reader can read the frames after this one; false if it must leave them to the library. */
  #isPlain(length: number): boolean {
    const [first = 0, second = 0] = this.#header;
    if (second >= maskBit !== this.#options.isMasked) {
      return false;
    }
    return first === finalBinary
      ? length <= this.#options.maxMessageBytes
      : (first === finalPing || first === finalPong) && length <= maxControlBytes;
  }

  /** Counts `bytes` processed bytes of the current frame, of which `body` belong to its body. */
  #count(bytes: number, body: number): void {
    const [first = 0] = this.#header;
    const opcode = first & opcodeBits;
    const isControl = opcode >= firstControlOpcode;
    if (!isControl && !this.#isDropping) {
      this.#partialBytes += bytes;
    }
    if (this.#left === undefined) {
      return;
    }
    this.#left -= body;
    if (this.#left > 0) {
      return;
    }
    this.#header = [];
    this.#left = undefined;
    if (!isControl && first >= finalBit) {
      this.#partialBytes = 0;
    }
    if (opcode === closeOpcode) {
      this.close();
    }
  }
}

/** Returns the length of a frame's body; undefined while its header is incomplete. */
function bodyLength(header: readonly number[]): number | undefined {
  const [, second = 0] = header;
  const short = second & lengthBits;
  const extended = short === 127 ? 8 : short === 126 ? 2 : 0;
  const headerBytes = 2 + extended + (second >= maskBit ? maskBytes : 0);
  if (header.length < Math.max(2, headerBytes)) {
    return undefined;
  }
  return extended === 0
    ? short
    : header.slice(2, 2 + extended).reduce((length, byte) => length * 256 + byte, 0);
}
