// SPDX-License-Identifier: Apache-2.0
import type { ReadOptions } from "../primitives/read-options.ts";
import type { Reader } from "../primitives/reader.ts";
import { countVarints } from "../primitives/varints.ts";

/** Maximum nesting depth of messages, as in protobuf's own readers. */
const maxMessageDepth = 100;

/** No call of `Rules.read` reads more than this many bytes: at most a tag and a varint. */
const tokenBytes = 16;

const noBytes = new Uint8Array(0);

/** The fields of a message, or the elements of a packed field, as a walk reads them. */
export interface Rules {
  /**
   * Reads one field or element at the reader's position, and spends its work. A nested message is not read but entered
   * (`Walk.enter`); other contents of a field are skipped, even if they have not arrived yet.
   */
  read(walk: Walk, frame: Frame): void;
}

/** A message that is entered and not left yet. */
export class Frame {
  rules: Rules;
  end: number;
  /** True until the first field is read. */
  isFresh = true;
  /** A count that the rules keep. */
  count = 0;

  constructor(rules: Rules, end: number) {
    this.rules = rules;
    this.end = end;
  }

  reset(rules: Rules, end: number): void {
    this.rules = rules;
    this.end = end;
    this.isFresh = true;
    this.count = 0;
  }
}

/** The rules of a packed field of varints, which is counted as it arrives. */
export interface PackedRules {
  /** Spends the work of varints up to the `count`th, of which the first `before` have been charged. */
  spend(walk: Walk, count: number, before: number): void;
  /** Called at the end of the field, which has `count` varints, with the frame of its message. */
  counted(walk: Walk, frame: Frame, count: number): void;
}

/**
 * Reads the fields of a message in order, as far as its bytes have arrived, and spends their work. It keeps no bytes
 * except those of a field's tag and length that are split between two chunks.
 */
export class Walk {
  readonly reader: Reader;
  readonly options: ReadOptions;
  /** Count of entries in messages other than steps. */
  entries = 0;
  /** Dimensions of the tensor that is being read, in a step. */
  dimensions = 0;
  /** Field number of that tensor's last payload; 0 before the first. */
  payload = 0;
  /** Actions and requested observations of the step that is being read. */
  actions = 0;
  requested = 0;
  readonly #frames: Frame[] = [];
  /** Index of the innermost frame; -1 after the end of the message. */
  #inner = -1;
  /** Depth of the outermost frame, as protobuf counts it. */
  #depth = 1;
  /** The open groups of a field that is skipped. */
  readonly #groups: number[] = [];
  /** The rules, end and number of varints of the packed field that is being counted. */
  #packed: PackedRules | undefined;
  #packedEnd = 0;
  #packedCount = 0;
  /** The bytes at the end of the last chunk that are not read yet, followed by the first bytes of the next chunk. */
  readonly #joint = new Uint8Array(4 * tokenBytes);
  /** Number of bytes in `#joint` between two chunks. */
  #kept = 0;

  constructor(reader: Reader, options: ReadOptions) {
    this.reader = reader;
    this.options = options;
  }

  /** Reads a whole message, from the reader's position to its end. */
  whole(rules: Rules): void {
    const { reader } = this;
    const { end } = reader;
    this.#begin(rules, end, 1);
    this.#run(end);
    reader.end = end;
  }

  /** Starts a message of `size` bytes that arrives in chunks. */
  open(rules: Rules, size: number): void {
    this.reader.open(noBytes, 0, size);
    this.#begin(rules, size, 0);
  }

  /** Reads the next chunk of the message. */
  add(source: Uint8Array, start: number, end: number): void {
    let by = start;
    if (this.#kept > 0) {
      const kept = this.#kept;
      const taken = Math.min(end - start, 2 * tokenBytes);
      this.#joint.set(source.subarray(start, start + taken), kept);
      this.#run(kept + taken);
      if (start + taken === end) {
        this.#keep(this.#joint, kept + taken);
        return;
      }
      by = start - kept;
    }
    this.#move(source, by);
    this.#run(end);
    this.#keep(source, end);
  }

  /** Enters a nested message that ends at `stop`. */
  enter(rules: Rules, stop: number): void {
    const { reader } = this;
    reader.end = stop;
    this.#inner += 1;
    if (this.#inner + this.#depth > maxMessageDepth) {
      throw reader.malformed(`messages at most ${maxMessageDepth} deep`, "a deeper one");
    }
    this.#put(rules, stop);
  }

  /** Skips an unknown field whose tag was read, and spends 1 unit of work. */
  skip(tag: number): void {
    this.reader.spend(1);
    this.pass(tag);
  }

  /** Skips a field whose tag was read; only fields within a group cost work. */
  pass(tag: number): void {
    this.reader.passPart(tag, this.#groups);
  }

  /** Counts the varints from the reader's position to `stop`, as far as they have arrived. */
  count(packed: PackedRules, stop: number): void {
    this.#packed = packed;
    this.#packedEnd = stop;
    this.#packedCount = 0;
  }

  #begin(rules: Rules, end: number, depth: number): void {
    this.#depth = depth;
    this.#groups.length = 0;
    this.#packed = undefined;
    this.#inner = 0;
    this.#put(rules, end);
  }

  #put(rules: Rules, end: number): void {
    const frame = this.#frames[this.#inner];
    if (frame === undefined) {
      this.#frames.push(new Frame(rules, end));
    } else {
      frame.reset(rules, end);
    }
  }

  /** Reads until the message ends, or too few bytes are left before `limit`. */
  #run(limit: number): void {
    const { reader } = this;
    const all = (this.#frames[0] as Frame).end <= limit;
    while (this.#inner >= 0) {
      if (this.#packed !== undefined && !this.#countUntil(limit, this.#packed)) {
        return;
      }
      if (!all && reader.pos > limit - tokenBytes) {
        return;
      }
      if (this.#groups.length > 0) {
        reader.passNext(this.#groups);
        continue;
      }
      const frame = this.#frames[this.#inner] as Frame;
      if (reader.pos < frame.end) {
        frame.rules.read(this, frame);
        frame.isFresh = false;
      } else {
        this.#inner -= 1;
        reader.end = this.#frames[this.#inner]?.end ?? frame.end;
      }
    }
  }

  /** Counts varints of the packed field up to `limit`; returns true at the end of the field. */
  #countUntil(limit: number, packed: PackedRules): boolean {
    const { reader } = this;
    const { source, pos } = reader;
    if (pos < this.#packedEnd) {
      const stop = Math.min(this.#packedEnd, limit);
      const before = this.#packedCount;
      this.#packedCount += countVarints(source, pos, stop);
      packed.spend(this, this.#packedCount, before);
      reader.pos = stop;
      if (stop < this.#packedEnd) {
        return false;
      }
    }
    this.#packed = undefined;
    packed.counted(this, this.#frames[this.#inner] as Frame, this.#packedCount);
    return true;
  }

  /** Keeps the bytes before `limit` that are not read yet. */
  #keep(source: Uint8Array, limit: number): void {
    const { pos } = this.reader;
    this.#kept = Math.max(0, limit - pos);
    if (this.#kept > 0) {
      this.#joint.set(source.subarray(pos, limit));
    }
    this.#move(this.#joint, this.#kept - limit);
  }

  /** Continues in another source, where each position is greater by `by`. */
  #move(source: Uint8Array, by: number): void {
    this.reader.move(source, by);
    this.#packedEnd += by;
    for (let i = 0; i <= this.#inner; i++) {
      (this.#frames[i] as Frame).end += by;
    }
  }
}
