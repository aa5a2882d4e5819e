// SPDX-License-Identifier: Apache-2.0
import type { Malformed } from "@dm-env-rpc/tensor-codec/wire";
import { type Arriving, Assembly } from "../assembly/assembly.ts";
import type { BufferPool } from "../assembly/buffer-pool.ts";
import { chunkOverheadBytes, owned } from "../assembly/owned.ts";
import { pieceBytes } from "../limits/limits.ts";
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
/** Units of work of a message that is assembled, in addition to its check. */
const messageWork = 8;
/** Number of bytes of a message whose check takes one unit of work. To check 64 KiB thus takes a whole turn. */
const bytesPerWork = 16;

/** Options of a frame reader. */
export interface FrameReaderOptions {
  /** True if received frames are masked, as the frames of clients are. */
  readonly isMasked: boolean;
  /** Size limit of a message. */
  readonly maxMessageBytes: number;
  /** Memory for the first bytes of large messages. */
  readonly pool: BufferPool;
  /** Starts to check a message above 64 KiB. Default: messages are not checked. */
  readonly arriving?: Arriving | undefined;
  /** Called when a message has arrived: the bytes of `chunk` from `start` to `end`. */
  readonly onMessage: (chunk: Uint8Array, start: number, end: number) => void;
  /** Called instead of `onMessage` when the check of a message has failed. The rest of the message is dropped. */
  readonly onRefusal: (refusal: Malformed) => void;
  /**
   * Called with the bytes of other frames, in order. A frame may arrive in several parts. The library keeps those of an
   * incomplete message.
   */
  readonly onOther: (bytes: Uint8Array) => void;
  /**
   * Called when a part of fewer than `pieceBytes` bytes of an incomplete message has been left to the library. Default:
   * pieces are not counted.
   */
  readonly onPiece?: (() => void) | undefined;
  /** Called when bytes are held. The network should not be read until `readOn` has been called. */
  readonly onBehind: () => void;
}

/** The reader of a frame: the library, this reader, which assembles a message, or none, if the frame is dropped. */
type Fate = "library" | "message" | "dropped";

/**
 * Reads the frames of a WebSocket (RFC 6455, section 5.2) before the library `ws` does, because `ws` makes a buffer, a
 * write and two events for each frame, and unmasks a large message in one turn.
 *
 * The reader delivers binary messages of one frame, and leaves all other frames to the library. After a frame that may
 * break the protocol, it leaves all later frames to the library, too. A message that spans several chunks is assembled
 * (`Assembly`), and if it is large, it is checked meanwhile.
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
  #fate: Fate = "library";
  #work = 0;
  /** True until all frames are left to the library. */
  #isDirect = true;
  #isClosed = false;
  /** Bytes of the current frame's header so far, unless the frame is a message within one chunk. */
  #header: number[] = [];
  /** Number of bytes of this frame's body that have not arrived; undefined until the header is complete. */
  #left: number | undefined;
  /** Length of the body of the current frame, once its header is complete. */
  #bodyBytes = 0;
  readonly #assembly: Assembly;
  /** The mask of the message that is assembled, twice: a chunk may begin at any of its bytes. */
  readonly #mask = new Uint8Array(2 * maskBytes);

  constructor(options: FrameReaderOptions) {
    this.#options = options;
    this.#assembly = new Assembly(options.pool, options.arriving);
  }

  /** True inside a large message that is checked while it arrives. */
  get isChecking(): boolean {
    return this.#assembly.isChecking;
  }

  /** Received bytes of an incomplete message, with their overhead if the library keeps them, plus held bytes. */
  get partialBytes(): number {
    return this.#partialBytes + this.heldBytes;
  }

  /** Bytes that are held. */
  get heldBytes(): number {
    return this.#held.reduce((sum, { length }) => sum + length, 0);
  }

  /** True while the reader holds bytes, which `readOn` will read. */
  get isBehind(): boolean {
    return this.#held.length > 0;
  }

  /** Reads a chunk. */
  push(chunk: Buffer): void {
    if (this.#isHolding) {
      this.#keep(chunk);
    } else {
      this.#read(chunk);
    }
  }

  /** Holds later chunks, and the rest of the current chunk. */
  pause(): void {
    this.#isPaused = true;
    this.hold();
  }

  /** Holds the next chunk until `readOn` is called. */
  hold(): void {
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
    if (this.#fate === "message") {
      this.#fate = "dropped";
      this.#assembly.clear();
    }
  }

  /** Drops all later chunks. */
  close(): void {
    this.#isClosed = true;
    this.#held = [];
    this.#partialBytes = 0;
    this.#assembly.clear();
  }

  #read(chunk: Buffer): void {
    let at = 0;
    while (at < chunk.length && !this.#isClosed) {
      if (this.#isHolding) {
        this.#keep(chunk.subarray(at));
        return;
      }
      at = this.#readMessage(chunk, at) ?? this.#readPart(chunk, at);
    }
  }

  #keep(chunk: Buffer): void {
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

  /** Delivers the message at `start`. Returns its end; undefined if no whole message under 64 KiB begins there. */
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

  /** Reads the received part of the frame at `start`. Returns the position after that part. */
  #readPart(chunk: Buffer, start: number): number {
    const earlier = this.#header.length;
    if (earlier === 0) {
      this.#begin(chunk[start] ?? 0);
    }
    let at = start;
    while (this.#left === undefined && at < chunk.length) {
      this.#header.push(chunk[at] ?? 0);
      at += 1;
      this.#left = bodyLength(this.#header);
      if (this.#left !== undefined) {
        this.#bodyBytes = this.#left;
        this.#decide(this.#left, earlier);
      }
    }
    const body = at;
    at += Math.min(this.#left ?? 0, chunk.length - at);
    const isControl = ((this.#header[0] ?? 0) & opcodeBits) >= firstControlOpcode;
    const isEnd = this.#count(at - start, at - body);
    if (this.#fate === "library") {
      const part = at - start === chunk.length ? chunk : chunk.subarray(start, at);
      if (isControl) {
        this.#options.onOther(isEnd ? part : owned(part));
      } else {
        this.#leave(part, !isEnd && at > body);
      }
    } else if (this.#fate === "message") {
      this.#assemble(chunk, body, at, isEnd);
    }
    return at;
  }

  /**
   * Leaves a part of a message to the library, which keeps the parts of an incomplete message.
   *
   * @param isSplit True if the rest of the frame's body will arrive in another chunk. The library then copies a small body
   *   into memory of `Buffer.poolSize`, which the copy keeps alive.
   */
  #leave(part: Buffer, isSplit: boolean): void {
    if (this.#partialBytes === 0) {
      this.#options.onOther(part);
      return;
    }
    const isCopied = isSplit && this.#bodyBytes < Buffer.poolSize;
    this.#partialBytes += isCopied ? Buffer.poolSize : chunkOverheadBytes;
    this.#options.onOther(owned(part));
    if (part.length < pieceBytes) {
      this.#options.onPiece?.();
    }
  }

  /** Called with the first byte of a frame. */
  #begin(first: number): void {
    if (this.#isDropping && (first & opcodeBits) !== closeOpcode) {
      this.#fate = "dropped";
      this.#countWork(1);
    } else if (this.#isDirect && first === finalBinary) {
      this.#fate = "message";
      this.#countWork(messageWork);
    } else {
      this.#fate = "library";
      this.#countWork(libraryWork);
    }
  }

  /** Called when the header of a frame is complete; `earlier` of its bytes are from earlier chunks. */
  #decide(length: number, earlier: number): void {
    const isPlain = this.#isPlain(length);
    if (!isPlain) {
      this.#isDirect = false;
    }
    if (this.#fate !== "message") {
      return;
    }
    if (!isPlain) {
      this.#fate = "library";
      this.#countWork(libraryWork);
      if (earlier > 0) {
        this.#options.onOther(Buffer.from(this.#header.slice(0, earlier)));
      }
    } else if (length > 0) {
      this.#assembly.open(length);
      const key = this.#header.slice(-maskBytes);
      this.#mask.set([...key, ...key]);
    }
  }

  /** Adds the bytes of a chunk from `from` to `to` to the message, and delivers the message if it ends there. */
  #assemble(chunk: Buffer, from: number, to: number, isEnd: boolean): void {
    const { isMasked, onMessage, onRefusal } = this.#options;
    const assembly = this.#assembly;
    if (from === to) {
      if (isEnd) {
        onMessage(chunk, to, to); // An empty message.
      }
      return;
    }
    if (isMasked) {
      mask(chunk, from, to, this.#mask, assembly.arrivedBytes % maskBytes);
    }
    if (assembly.isChecking) {
      this.#countWork((to - from) / bytesPerWork);
    }
    const whole = assembly.add(chunk, from, to);
    const refusal = assembly.takeRefusal();
    if (refusal !== undefined) {
      this.#fate = "dropped";
      this.#partialBytes = 0;
      assembly.clear();
      onRefusal(refusal);
    } else if (whole !== undefined) {
      onMessage(whole, assembly.start, assembly.end);
    }
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

  /**
   * Counts `bytes` processed bytes of the current frame, of which `body` belong to its body. Returns true at the end of
   * the frame.
   */
  #count(bytes: number, body: number): boolean {
    const [first = 0] = this.#header;
    const opcode = first & opcodeBits;
    const isControl = opcode >= firstControlOpcode;
    if (!isControl && !this.#isDropping && this.#fate !== "dropped") {
      this.#partialBytes += bytes;
    }
    if (this.#left === undefined) {
      return false;
    }
    this.#left -= body;
    if (this.#left > 0) {
      return false;
    }
    this.#header = [];
    this.#left = undefined;
    if (!isControl && first >= finalBit) {
      this.#partialBytes = 0;
    }
    if (opcode === closeOpcode) {
      this.close();
    }
    return true;
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
