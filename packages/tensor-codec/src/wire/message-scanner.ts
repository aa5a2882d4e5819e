// SPDX-License-Identifier: Apache-2.0
import { type DescField, type DescMessage, ScalarType } from "@bufbuild/protobuf";
import { tooManyEntries, tooManyFields } from "../errors/limits.ts";
import type { ReadOptions } from "./primitives/read-options.ts";
import type { Reader } from "./primitives/reader.ts";
import { countVarints } from "./primitives/varints.ts";
import {
  fixed32Type,
  fixed64Type,
  lengthDelimitedType,
  startGroupType,
  varintType,
} from "./primitives/wire-type.ts";

/** Most nested messages, as in protobuf's own readers. */
const maxMessageDepth = 100;

/** Allowed fields and numbers of one message for each allowed entry. */
const fieldsPerEntry = 16;

/** The cost of decoding one occurrence of a field. */
interface FieldCost {
  readonly wireType: number;
  /** True for a list of numbers, which may be packed. */
  readonly packable: boolean;
  /** True if it adds an entry to a list or a map. */
  readonly repeated: boolean;
  /** The fields of the nested message. */
  readonly inner: (() => FieldCosts) | undefined;
}

type FieldCosts = ReadonlyMap<number, FieldCost>;

const known = new WeakMap<DescMessage, FieldCosts>();

/**
 * Counts the objects that generated code would allocate for a message, before it does: a few thousand
 * bytes of gzip can hold millions of empty messages, each an object of hundreds of bytes.
 */
export class MessageScanner {
  readonly #maxEntries: number;
  #entries = 0;
  #fields = 0;

  constructor({ maxEntries }: Pick<ReadOptions, "maxEntries">) {
    this.#maxEntries = maxEntries;
  }

  /** Starts to count from zero. */
  clear(): void {
    this.#entries = this.#fields = 0;
  }

  /**
   * Counts a message from the reader's position to its end, and adds it to the count so far.
   *
   * @throws TensorError `limit`, or `malformed` with the offset.
   */
  scan(schema: DescMessage, reader: Reader): void {
    this.#countFields(1);
    this.#scanFields(costsOf(schema), reader, 1);
  }

  #scanFields(costs: FieldCosts, reader: Reader, depth: number): void {
    if (depth > maxMessageDepth) {
      throw reader.malformed(`messages at most ${maxMessageDepth} deep`, "a deeper one");
    }
    const { end } = reader;
    while (reader.pos < end) {
      const at = reader.pos;
      const tag = reader.tag();
      const cost = costs.get(tag >>> 3);
      if (cost === undefined) {
        reader.skip(tag);
        continue;
      }
      if (cost.packable) {
        this.#countNumbers(cost, tag, reader, at);
        continue;
      }
      if ((tag & 7) !== cost.wireType) {
        throw wrongWireType(reader, tag, cost, at);
      }
      this.#countFields(1);
      if (cost.repeated) {
        this.#entries += 1;
        if (this.#entries > this.#maxEntries) {
          throw tooManyEntries(this.#maxEntries);
        }
      }
      if (cost.inner === undefined) {
        reader.pass(tag);
      } else {
        reader.end = reader.delimited();
        this.#scanFields(cost.inner(), reader, depth + 1);
        reader.end = end;
      }
    }
  }

  #countFields(count: number): void {
    this.#fields += count;
    const maxFields = this.#maxEntries * fieldsPerEntry;
    if (this.#fields > maxFields) {
      throw tooManyFields(maxFields);
    }
  }

  #countNumbers(cost: FieldCost, tag: number, reader: Reader, at: number): void {
    if ((tag & 7) === lengthDelimitedType) {
      const stop = reader.delimited();
      this.#countFields(numbersIn(reader, stop, cost.wireType));
      reader.pos = stop;
    } else if ((tag & 7) === cost.wireType) {
      reader.pass(tag);
      this.#countFields(1);
    } else {
      throw wrongWireType(reader, tag, cost, at);
    }
  }
}

function numbersIn(reader: Reader, stop: number, wireType: number): number {
  if (wireType === varintType) {
    return countVarints(reader.source, reader.pos, stop);
  }
  return Math.ceil((stop - reader.pos) / (wireType === fixed32Type ? 4 : 8));
}

function wrongWireType(reader: Reader, tag: number, cost: FieldCost, at: number): Error {
  return reader.malformed(`wire type ${cost.wireType} of field ${tag >>> 3}`, `${tag & 7}`, at);
}

function costsOf(schema: DescMessage): FieldCosts {
  let costs = known.get(schema);
  if (costs === undefined) {
    costs = new Map(schema.fields.map((field) => [field.number, costOf(field)]));
    known.set(schema, costs);
  }
  return costs;
}

function costOf(field: DescField): FieldCost {
  const packable = field.fieldKind === "list" && wireTypeOf(field) !== lengthDelimitedType;
  return {
    wireType: wireTypeOf(field),
    packable: packable && field.listKind !== "message",
    repeated: field.fieldKind === "list" || field.fieldKind === "map",
    inner: innerOf(field),
  };
}

function innerOf(field: DescField): (() => FieldCosts) | undefined {
  const { message } = field;
  if (field.fieldKind === "map") {
    const plain = { packable: false, repeated: false };
    const key = { ...plain, wireType: wireTypes[field.mapKey], inner: undefined };
    const value =
      message === undefined
        ? { ...plain, wireType: scalarWireType(field), inner: undefined }
        : { ...plain, wireType: lengthDelimitedType, inner: () => costsOf(message) };
    const entry = new Map([
      [1, key],
      [2, value],
    ]);
    return () => entry;
  }
  if (message === undefined || wireTypeOf(field) === startGroupType) {
    return undefined;
  }
  return () => costsOf(message);
}

function wireTypeOf(field: DescField): number {
  if (field.fieldKind === "map") {
    return lengthDelimitedType;
  }
  if (field.message === undefined) {
    return scalarWireType(field);
  }
  return "delimitedEncoding" in field && field.delimitedEncoding
    ? startGroupType
    : lengthDelimitedType;
}

/** The wire type of a number, a string or bytes, in a list or a map too; enums are varints. */
function scalarWireType({ scalar }: DescField): number {
  return scalar === undefined ? varintType : wireTypes[scalar];
}

const wireTypes: Readonly<Record<ScalarType, number>> = {
  [ScalarType.DOUBLE]: fixed64Type,
  [ScalarType.FLOAT]: fixed32Type,
  [ScalarType.INT64]: varintType,
  [ScalarType.UINT64]: varintType,
  [ScalarType.INT32]: varintType,
  [ScalarType.FIXED64]: fixed64Type,
  [ScalarType.FIXED32]: fixed32Type,
  [ScalarType.BOOL]: varintType,
  [ScalarType.STRING]: lengthDelimitedType,
  [ScalarType.BYTES]: lengthDelimitedType,
  [ScalarType.UINT32]: varintType,
  [ScalarType.SFIXED32]: fixed32Type,
  [ScalarType.SFIXED64]: fixed64Type,
  [ScalarType.SINT32]: varintType,
  [ScalarType.SINT64]: varintType,
};
