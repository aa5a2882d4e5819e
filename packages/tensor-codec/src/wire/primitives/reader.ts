// SPDX-License-Identifier: Apache-2.0
import { tooMuchWork } from "../../errors/limits.ts";
import { TensorError } from "../../errors/tensor-error.ts";
import { LayoutNotes } from "./layout-notes.ts";
import type { ReadOptions } from "./read-options.ts";
import {
  endGroupType,
  fixed32Type,
  fixed64Type,
  lengthDelimitedType,
  startGroupType,
  varintType,
} from "./wire-type.ts";

/** Maximum nesting depth of skipped groups, as in protobuf's own readers. */
const maxGroupDepth = 100;

/** Work of a field with a string, bytes or a message, which each become an object; a number costs 1. */
export const objectWork = 4;

/** Largest buffer that `buffer` caches for the next message. */
const maxCachedBytes = 64 * 1024;

const noBytes = new Uint8Array(0);

/**
 * Reads tags, varints and lengths, never past `end`. To read a message within a message, set `end` to the end
 * of the inner message and restore it afterwards.
 */
export class Reader {
  source: Uint8Array = noBytes;
  pos = 0;
  end = 0;
  /** Position of the message's first byte; offsets in errors count from it. */
  #start = 0;
  /** True while the source is a merge of parts of the message. */
  #merged = false;
  /** The last source whose ArrayBuffer was read, and that ArrayBuffer. */
  #lastSource: Uint8Array = noBytes;
  #lastBuffer: ArrayBufferLike = noBytes.buffer;
  readonly #maxMessageWork: number;
  /** Work spent on the message so far. */
  #work = 0;
  /** The halves of the last varint that `varint64` read; signed, as bit operations leave them. */
  low = 0;
  high = 0;
  /** The positions recorded while a step is read. */
  readonly notes: LayoutNotes = new LayoutNotes();

  /** @param options.maxMessageWork Maximum work to spend on a message, from `open` to `close`. */
  constructor({ maxMessageWork }: Pick<ReadOptions, "maxMessageWork">) {
    this.#maxMessageWork = maxMessageWork;
  }

  open(source: Uint8Array, start: number, end: number): void {
    this.source = source;
    this.#start = start;
    this.pos = start;
    this.end = end;
    this.#merged = false;
  }

  /**
   * The ArrayBuffer of the source. Cached, because `TypedArray.buffer` is slow in V8 and the messages of a chunk share
   * one buffer.
   */
  get buffer(): ArrayBufferLike {
    const { source } = this;
    if (source === this.#lastSource) {
      return this.#lastBuffer;
    }
    const { buffer } = source;
    if (buffer.byteLength <= maxCachedBytes) {
      this.#lastSource = source;
      this.#lastBuffer = buffer;
    }
    return buffer;
  }

  /** Continues in another source, where each position is greater by `by`. */
  move(source: Uint8Array, by: number): void {
    this.source = source;
    this.pos += by;
    this.end += by;
    this.#start += by;
  }

  /** Drops the source, so that an idle codec does not keep a large one in memory. */
  close(): void {
    this.source = noBytes;
    this.#start = this.pos = this.end = this.#work = 0;
  }

  /** Reads a tag, field number times 8 plus wire type, and checks both. */
  tag(): number {
    const at = this.pos;
    if (at < this.end) {
      const byte = this.source[at] as number;
      if (byte < 0x80 && byte > 7 && (byte & 7) < 6) {
        this.pos = at + 1;
        return byte;
      }
    }
    return this.#longTag(at);
  }

  #longTag(at: number): number {
    const tag = this.uint32("a tag");
    if (tag < 8) {
      throw this.malformed("a field number from 1", "0", at);
    }
    if ((tag & 7) > fixed32Type) {
      throw this.malformed("a wire type from 0 to 5", `${tag & 7}`, at);
    }
    return tag;
  }

  /** Reads a length and returns the end of the field; moves `pos` to the field's first byte. */
  delimited(): number {
    const at = this.pos;
    let length: number;
    if (at < this.end && (this.source[at] as number) < 0x80) {
      length = this.source[at] as number;
      this.pos = at + 1;
    } else {
      length = this.uint32("a length");
    }
    const stop = this.pos + length;
    if (stop > this.end) {
      throw this.malformed(`${length} bytes`, `${this.end - this.pos} bytes before the end`, at);
    }
    return stop;
  }

  /** Reads a varint of at most 32 bits and five bytes. */
  uint32(what: string): number {
    const { source, end } = this;
    const at = this.pos;
    let pos = at;
    let value = 0;
    for (let shift = 0; shift < 35; shift += 7) {
      if (pos >= end) {
        throw this.malformed(what, "the end", at);
      }
      const byte = source[pos++] as number;
      if (shift === 28 && byte > 0x0f) {
        break;
      }
      value |= (byte & 0x7f) << shift;
      if (byte < 0x80) {
        this.pos = pos;
        return value >>> 0;
      }
    }
    throw this.malformed(`${what} of at most 32 bits`, "a longer varint", at);
  }

  /** Reads a varint of at most 64 bits and ten bytes into `low` and `high`; drops further bits. */
  varint64(): void {
    const { source, end } = this;
    const at = this.pos;
    let pos = at;
    let low = 0;
    let high = 0;
    for (let shift = 0; shift < 70; shift += 7) {
      if (pos >= end) {
        throw this.malformed("a varint", "the end", at);
      }
      const byte = source[pos++] as number;
      const bits = byte & 0x7f;
      if (shift < 28) {
        low |= bits << shift;
      } else if (shift === 28) {
        low |= bits << 28;
        high = bits >>> 4;
      } else {
        high |= bits << (shift - 32);
      }
      if (byte < 0x80) {
        this.low = low;
        this.high = high;
        this.pos = pos;
        return;
      }
    }
    throw this.malformed("a varint of at most ten bytes", "a longer one", at);
  }

  /** Reads the low 32 bits of a varint, signed, as protobuf reads an int32 or an enum. */
  int32(): number {
    const at = this.pos;
    if (at < this.end) {
      const byte = this.source[at] as number;
      if (byte < 0x80) {
        this.pos = at + 1;
        return byte;
      }
    }
    this.varint64();
    return this.low | 0;
  }

  /**
   * Adds work to the message's total, before the work is done.
   *
   * @throws TensorError `limit` above `maxMessageWork`.
   */
  spend(work: number): void {
    this.#work += work;
    if (this.#work > this.#maxMessageWork) {
      throw tooMuchWork(this.#maxMessageWork);
    }
  }

  /** Skips the unknown field whose tag was read, and spends 1 unit of work. */
  skip(tag: number): void {
    this.spend(1);
    this.pass(tag);
  }

  /** Skips the field whose tag was read; only fields within a group cost work. */
  pass(tag: number): void {
    const groups: number[] = [];
    this.passPart(tag, groups);
    while (groups.length > 0) {
      this.passNext(groups);
    }
  }

  /** Skips the next part of a field that is a group, and spends 1 unit of work. */
  passNext(groups: number[]): void {
    this.spend(1);
    this.passPart(this.tag(), groups);
  }

  /**
   * Skips the part of a field whose tag was read: the whole field, or the start or end of a group.
   *
   * @param groups Open groups. Once no group is open, the field is complete.
   */
  passPart(tag: number, groups: number[]): void {
    switch (tag & 7) {
      case varintType:
        this.varint64();
        break;
      case fixed64Type:
        this.#forward(8);
        break;
      case fixed32Type:
        this.#forward(4);
        break;
      case lengthDelimitedType:
        this.pos = this.delimited();
        break;
      case startGroupType:
        if (groups.length === maxGroupDepth) {
          throw this.malformed(`groups at most ${maxGroupDepth} deep`, "a deeper one");
        }
        groups.push(tag >>> 3);
        break;
      case endGroupType:
        if (groups.pop() !== tag >>> 3) {
          throw this.malformed(
            "the end of the group that is open",
            `the end of group ${tag >>> 3}`,
          );
        }
        break;
    }
  }

  #forward(bytes: number): void {
    if (this.pos + bytes > this.end) {
      throw this.malformed(`${bytes} bytes`, "the end");
    }
    this.pos += bytes;
  }

  /** Reads up to `stop`, then continues after it. */
  inner<T>(stop: number, read: () => T): T {
    const { end } = this;
    this.end = stop;
    const value = read();
    this.pos = stop;
    this.end = end;
    return value;
  }

  /** Reads a range of other bytes, then continues at the current position. */
  within<T>(source: Uint8Array, start: number, end: number, read: () => T): T {
    const { source: outerSource, pos, end: outerEnd } = this;
    const outerStart = this.#start;
    const merged = this.#merged;
    if (source !== outerSource) {
      this.open(source, start, end);
      this.#merged = true;
    } else {
      this.pos = start;
      this.end = end;
    }
    const value = read();
    this.open(outerSource, outerStart, outerEnd);
    this.pos = pos;
    this.#merged = merged;
    return value;
  }

  /** Creates the error for well-formed input that exceeds a limit. */
  beyond(expected: string, received: string): TensorError {
    return new TensorError({ reason: "limit", expected, received });
  }

  /** Creates the error for undecodable bytes, with their offset in the message. */
  malformed(expected: string, received: string, at: number = this.pos): TensorError {
    return new TensorError({
      reason: "malformed",
      expected: `${expected} at byte ${at - this.#start} of ${this.#merged ? "a field merged from its parts" : "the message"}`,
      received,
    });
  }
}
