// SPDX-License-Identifier: Apache-2.0
import { type DescField, type DescMessage, ScalarType } from "@bufbuild/protobuf";
import { TensorSchema, TensorSpecSchema } from "@dm-env-rpc/protocol";
import { tooManyDimensions, tooManyEntries } from "../errors/limits.ts";
import type { ReadOptions } from "./primitives/read-options.ts";
import { objectWork, type Reader } from "./primitives/reader.ts";
import { countVarints } from "./primitives/varints.ts";
import {
  fixed32Type,
  fixed64Type,
  lengthDelimitedType,
  startGroupType,
  varintType,
} from "./primitives/wire-type.ts";

/** Maximum nesting depth of messages, as in protobuf's own readers. */
const maxMessageDepth = 100;

/** 32 bytes of a string, which is decoded and checked, cost 1. */
const stringShift = 5;

/** Count of numbers in a packed field that cost 1. */
const numbersPerWork = 2;

/** The cost of decoding one occurrence of a field. */
interface FieldCost {
  readonly wireType: number;
  readonly work: number;
  readonly isString: boolean;
  /** True for a list of numbers, which may be packed. */
  readonly packable: boolean;
  /** True if it adds an entry to a list or a map. */
  readonly repeated: boolean;
  /** True for the shape of a tensor or a spec. */
  readonly isShape: boolean;
  /** The fields of the nested message. */
  readonly inner: (() => FieldCosts) | undefined;
}

type FieldCosts = ReadonlyMap<number, FieldCost>;

const known = new WeakMap<DescMessage, FieldCosts>();

/**
 * Estimates the work of decoding a message with the generated code, before the message is decoded: a few thousand
 * bytes of gzip can hold millions of empty messages, each an object of hundreds of bytes.
 */
export class MessageScanner {
  readonly #maxEntries: number;
  readonly #maxDimensions: number;
  #entries = 0;

  constructor({ maxEntries, maxDimensions }: Pick<ReadOptions, "maxEntries" | "maxDimensions">) {
    this.#maxEntries = maxEntries;
    this.#maxDimensions = maxDimensions;
  }

  /** Resets the count of entries. */
  clear(): void {
    this.#entries = 0;
  }

  /**
   * Charges the message between the reader's position and end to the reader's work budget, and counts the message's
   * entries.
   *
   * @throws TensorError `limit`, or `malformed` with the offset.
   */
  scan(schema: DescMessage, reader: Reader): void {
    this.#scanFields(costsOf(schema), reader, 1);
  }

  #scanFields(costs: FieldCosts, reader: Reader, depth: number): void {
    if (depth > maxMessageDepth) {
      throw reader.malformed(`messages at most ${maxMessageDepth} deep`, "a deeper one");
    }
    const { end } = reader;
    let dimensions = 0;
    while (reader.pos < end) {
      const at = reader.pos;
      const tag = reader.tag();
      const cost = costs.get(tag >>> 3);
      if (cost === undefined) {
        reader.skip(tag);
        continue;
      }
      if (cost.packable) {
        const count = spendNumbers(cost, tag, reader, at);
        dimensions += cost.isShape ? count : 0;
        if (dimensions > this.#maxDimensions) {
          throw tooManyDimensions(this.#maxDimensions);
        }
        continue;
      }
      if ((tag & 7) !== cost.wireType) {
        throw wrongWireType(reader, tag, cost, at);
      }
      reader.spend(cost.work);
      if (cost.repeated) {
        this.#entries += 1;
        if (this.#entries > this.#maxEntries) {
          throw tooManyEntries(this.#maxEntries);
        }
      }
      if (cost.isString) {
        const stop = reader.delimited();
        reader.spend((stop - reader.pos) >>> stringShift);
        reader.pos = stop;
      } else if (cost.inner === undefined) {
        reader.pass(tag);
      } else {
        reader.end = reader.delimited();
        this.#scanFields(cost.inner(), reader, depth + 1);
        reader.end = end;
      }
    }
  }
}

/** Charges the cost of a number or of a packed field of numbers, and returns the number of elements. */
function spendNumbers(cost: FieldCost, tag: number, reader: Reader, at: number): number {
  if ((tag & 7) === cost.wireType) {
    reader.spend(cost.work);
    reader.pass(tag);
    return 1;
  }
  if ((tag & 7) !== lengthDelimitedType) {
    throw wrongWireType(reader, tag, cost, at);
  }
  const stop = reader.delimited();
  const count = numbersIn(reader, stop, cost.wireType);
  reader.spend(cost.work + Math.ceil(count / numbersPerWork));
  reader.pos = stop;
  return count;
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
  const wireType = wireTypeOf(field);
  const packable = field.fieldKind === "list" && wireType !== lengthDelimitedType;
  return {
    wireType,
    work: workOf(wireType),
    isString: field.scalar === ScalarType.STRING,
    packable: packable && field.listKind !== "message",
    repeated: field.fieldKind === "list" || field.fieldKind === "map",
    isShape: shapes.has(`${field.parent.typeName}.${field.name}`),
    inner: innerOf(field),
  };
}

const shapes: ReadonlySet<string> = new Set(
  [TensorSchema, TensorSpecSchema].map(({ typeName }) => `${typeName}.shape`),
);

function workOf(wireType: number): number {
  return wireType === lengthDelimitedType || wireType === startGroupType ? objectWork : 1;
}

function innerOf(field: DescField): (() => FieldCosts) | undefined {
  const { message } = field;
  if (field.fieldKind === "map") {
    const partOf = (
      wireType: number,
      scalar: ScalarType | undefined,
      inner?: () => FieldCosts,
    ): FieldCost => ({
      wireType,
      work: workOf(wireType),
      isString: scalar === ScalarType.STRING,
      packable: false,
      repeated: false,
      isShape: false,
      inner,
    });
    const entry = new Map([
      [1, partOf(wireTypes[field.mapKey], field.mapKey)],
      [
        2,
        message === undefined
          ? partOf(scalarWireType(field), field.scalar)
          : partOf(lengthDelimitedType, undefined, () => costsOf(message)),
      ],
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
