// SPDX-License-Identifier: Apache-2.0
import { tooManyDimensions, tooManyElements, tooManyEntries } from "../../errors/limits.ts";
import type { PackedEncoding } from "../encodings/encoding.ts";
import { tooLongString } from "../encodings/repeated-fields.ts";
import { typeOfField } from "../encodings/table.ts";
import { objectWork } from "../primitives/reader.ts";
import {
  arrayField,
  arrayTag,
  lengthDelimitedType,
  shapeField,
  varintType,
} from "../primitives/wire-type.ts";
import type { Frame, Rules, Walk } from "./walk.ts";

// The rules of a StepRequest spend what its readers spend (`request.ts`, `steps/step-reader.ts`, `tensors/`,
// `encodings/`), as far as the bytes that have arrived tell. `arriving-request.test.ts` compares both.

const firstTag = (1 << 3) | lengthDelimitedType;
const secondTag = (2 << 3) | lengthDelimitedType;
const firstVarintTag = (1 << 3) | varintType;
const secondVarintTag = (2 << 3) | varintType;

/** The fields of a StepRequest. */
export const stepRequest: Rules = {
  read(walk) {
    const { reader } = walk;
    const tag = reader.tag();
    if (tag === firstTag) {
      const stop = reader.delimited();
      if (walk.actions === walk.options.maxEntries) {
        throw tooManyEntries(walk.options.maxEntries);
      }
      walk.actions += 1;
      reader.spend(objectWork);
      walk.enter(entry, stop);
    } else if (tag === secondTag) {
      const stop = reader.delimited();
      reader.spend(1);
      walk.enter(requested, stop);
    } else if (tag === secondVarintTag) {
      requested.read(walk);
    } else {
      walk.skip(tag);
    }
  },
};

/** The UIDs of requested observations. */
const requested = {
  read(walk: Walk): void {
    const { reader, options } = walk;
    reader.spend(1);
    if (walk.requested === options.maxEntries) {
      throw tooManyEntries(options.maxEntries);
    }
    walk.requested += 1;
    reader.int32();
  },
};

/** The key and the tensor of an action. */
const entry: Rules = {
  read(walk) {
    const { reader } = walk;
    const tag = reader.tag();
    if (tag === firstVarintTag) {
      reader.spend(1);
      reader.int32();
    } else if (tag === secondTag) {
      const stop = reader.delimited();
      reader.spend(objectWork);
      walk.dimensions = 0;
      walk.payload = 0;
      walk.enter(tensor, stop);
    } else {
      walk.skip(tag);
    }
  },
};

const tensor: Rules = {
  read(walk) {
    const { reader } = walk;
    const tag = reader.tag();
    const field = tag >>> 3;
    const rules = (tag & 7) === lengthDelimitedType ? arrays[field] : undefined;
    if (rules !== undefined) {
      const stop = reader.delimited();
      reader.spend(1);
      if (walk.payload !== field && walk.payload > 0) {
        reader.spend(objectWork);
      }
      walk.payload = field;
      walk.enter(rules, stop);
    } else if (tag === ((shapeField << 3) | lengthDelimitedType)) {
      const stop = reader.delimited();
      reader.spend(1);
      walk.enter(dimensions, stop);
    } else if (tag === ((shapeField << 3) | varintType)) {
      dimensions.read(walk);
    } else {
      walk.skip(tag);
    }
  },
};

const dimensions = {
  read(walk: Walk): void {
    const { reader, options } = walk;
    if (walk.dimensions === options.maxDimensions) {
      throw tooManyDimensions(options.maxDimensions);
    }
    reader.spend(1);
    walk.dimensions += 1;
    reader.int32();
  },
};

/** An array of numbers or bytes. The count of its frame is the bytes of its elements. */
class PackedArray implements Rules {
  readonly #encoding: PackedEncoding<never>;
  /** Tag of an element in a field of its own. */
  readonly #alone: number | undefined;

  constructor(encoding: PackedEncoding<never>) {
    this.#encoding = encoding;
    this.#alone = encoding.alone === undefined ? undefined : (arrayField << 3) | encoding.alone;
  }

  read(walk: Walk, frame: Frame): void {
    const { reader, options } = walk;
    const encoding = this.#encoding;
    const at = reader.pos;
    if (frame.isFresh && reader.source[at] === arrayTag) {
      reader.pos = at + 1;
      const stop = reader.delimited();
      if (stop === frame.end) {
        reader.spend(encoding.workOf(stop - reader.pos));
        encoding.checkLength(reader, reader.pos, stop, options);
        reader.pos = stop;
        return;
      }
      reader.pos = at;
    }
    const tag = reader.tag();
    reader.spend(1);
    if (tag === arrayTag) {
      const stop = reader.delimited();
      if (encoding.alone === undefined) {
        encoding.checkLength(reader, reader.pos, stop, options);
      }
      this.#add(walk, frame, stop - reader.pos);
      reader.pos = stop;
    } else if (tag === this.#alone) {
      const start = reader.pos;
      walk.pass(tag);
      this.#add(walk, frame, reader.pos - start);
    } else {
      walk.skip(tag);
    }
  }

  #add({ reader }: Walk, frame: Frame, bytes: number): void {
    const before = this.#encoding.workOf(frame.count);
    frame.count += bytes;
    reader.spend(this.#encoding.workOf(frame.count) - before);
  }
}

/** An array of strings or Anys. The count of its frame is the number of its elements. */
class RepeatedArray implements Rules {
  readonly #readElement: (walk: Walk, frame: Frame) => void;

  constructor(readElement: (walk: Walk, frame: Frame) => void) {
    this.#readElement = readElement;
  }

  read(walk: Walk, frame: Frame): void {
    const { reader, options } = walk;
    const tag = reader.tag();
    if (tag !== arrayTag) {
      walk.skip(tag);
      return;
    }
    reader.spend(objectWork);
    if (frame.count === options.maxElements) {
      throw tooManyElements(frame.count + 1, options.maxElements);
    }
    this.#readElement(walk, frame);
    frame.count += 1;
  }
}

const strings = new RepeatedArray(readString);

const anys = new RepeatedArray((walk, frame) => {
  const { maxEntries } = walk.options;
  if (frame.count === maxEntries) {
    throw tooManyEntries(maxEntries);
  }
  walk.enter(any, walk.reader.delimited());
});

const any: Rules = {
  read(walk) {
    const { reader } = walk;
    const tag = reader.tag();
    reader.spend(objectWork);
    if (tag === firstTag) {
      readString(walk);
    } else if (tag === secondTag) {
      reader.pos = reader.delimited();
    } else {
      walk.skip(tag);
    }
  },
};

function readString({ reader, options }: Walk): void {
  const stop = reader.delimited();
  if (stop - reader.pos > options.maxStringBytes) {
    throw tooLongString(reader, stop - reader.pos, options);
  }
  reader.pos = stop;
}

/** The rules of each payload of a Tensor, by its field number. */
const arrays: readonly (Rules | undefined)[] = typeOfField.map((type) => {
  if (type === undefined) {
    return undefined;
  }
  const { dtype, encoding } = type;
  if (encoding.packed) {
    return new PackedArray(encoding as PackedEncoding<never>);
  }
  return dtype === "string" ? strings : anys;
});
