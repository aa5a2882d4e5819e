// SPDX-License-Identifier: Apache-2.0
import { type DescField, type DescMessage, ScalarType } from "@bufbuild/protobuf";
import { TensorSchema, TensorSpecSchema } from "@dm-env-rpc/protocol";
import { tooManyDimensions, tooManyEntries } from "../../errors/limits.ts";
import { objectWork, type Reader } from "../primitives/reader.ts";
import {
  fixed32Type,
  fixed64Type,
  lengthDelimitedType,
  startGroupType,
  varintType,
} from "../primitives/wire-type.ts";
import type { Frame, PackedRules, Rules, Walk } from "./walk.ts";

/** 32 bytes of a string, which is decoded and checked, cost 1. */
const stringShift = 5;

/** Count of numbers in a packed field that cost 1. */
const numbersPerWork = 2;

/** The cost of decoding one occurrence of a field. */
interface FieldCost extends PackedRules {
  readonly wireType: number;
  readonly work: number;
  readonly isString: boolean;
  /** True for a list of numbers, which may be packed. */
  readonly packable: boolean;
  /** True if it adds an entry to a list or a map. */
  readonly repeated: boolean;
  /** The fields of the nested message. */
  readonly inner: (() => Rules) | undefined;
}

const known = new WeakMap<DescMessage, Rules>();

/**
 * Returns the rules of a message that generated code decodes. They estimate the work of decoding it: a few thousand
 * bytes of gzip can hold millions of empty messages, each an object of hundreds of bytes.
 */
export function fieldsOf(schema: DescMessage): Rules {
  let fields = known.get(schema);
  if (fields === undefined) {
    fields = new Fields(new Map(schema.fields.map((field) => [field.number, costOf(field)])));
    known.set(schema, fields);
  }
  return fields;
}

/** The fields of a message, by number. The count of a frame is the dimensions of its shape. */
class Fields implements Rules {
  readonly #costs: ReadonlyMap<number, FieldCost>;

  constructor(costs: ReadonlyMap<number, FieldCost>) {
    this.#costs = costs;
  }

  read(walk: Walk, frame: Frame): void {
    const { reader } = walk;
    const at = reader.pos;
    const tag = reader.tag();
    const cost = this.#costs.get(tag >>> 3);
    if (cost === undefined) {
      walk.skip(tag);
      return;
    }
    if (cost.packable) {
      readNumbers(cost, tag, walk, frame, at);
      return;
    }
    if ((tag & 7) !== cost.wireType) {
      throw wrongWireType(reader, tag, cost, at);
    }
    reader.spend(cost.work);
    if (cost.repeated) {
      walk.entries += 1;
      if (walk.entries > walk.options.maxEntries) {
        throw tooManyEntries(walk.options.maxEntries);
      }
    }
    if (cost.isString) {
      const stop = reader.delimited();
      reader.spend((stop - reader.pos) >>> stringShift);
      reader.pos = stop;
    } else if (cost.inner === undefined) {
      walk.pass(tag);
    } else {
      walk.enter(cost.inner(), reader.delimited());
    }
  }
}

/** Reads a number, or a packed field of numbers. */
function readNumbers(cost: FieldCost, tag: number, walk: Walk, frame: Frame, at: number): void {
  const { reader } = walk;
  if ((tag & 7) === cost.wireType) {
    reader.spend(cost.work);
    walk.pass(tag);
    cost.counted(walk, frame, 1);
    return;
  }
  if ((tag & 7) !== lengthDelimitedType) {
    throw wrongWireType(reader, tag, cost, at);
  }
  const stop = reader.delimited();
  reader.spend(cost.work);
  if (cost.wireType === varintType) {
    walk.count(cost, stop);
    return;
  }
  const count = Math.ceil((stop - reader.pos) / (cost.wireType === fixed32Type ? 4 : 8));
  cost.spend(walk, count, 0);
  reader.pos = stop;
  cost.counted(walk, frame, count);
}

function spendNumbers({ reader }: Walk, count: number, before: number): void {
  reader.spend(Math.ceil(count / numbersPerWork) - Math.ceil(before / numbersPerWork));
}

function countDimensions({ options }: Walk, frame: Frame, count: number): void {
  frame.count += count;
  if (frame.count > options.maxDimensions) {
    throw tooManyDimensions(options.maxDimensions);
  }
}

function wrongWireType(reader: Reader, tag: number, cost: FieldCost, at: number): Error {
  return reader.malformed(`wire type ${cost.wireType} of field ${tag >>> 3}`, `${tag & 7}`, at);
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
    spend: spendNumbers,
    counted: shapes.has(`${field.parent.typeName}.${field.name}`) ? countDimensions : () => {},
    inner: innerOf(field),
  };
}

const shapes: ReadonlySet<string> = new Set(
  [TensorSchema, TensorSpecSchema].map(({ typeName }) => `${typeName}.shape`),
);

function workOf(wireType: number): number {
  return wireType === lengthDelimitedType || wireType === startGroupType ? objectWork : 1;
}

function innerOf(field: DescField): (() => Rules) | undefined {
  const { message } = field;
  if (field.fieldKind === "map") {
    const partOf = (
      wireType: number,
      scalar: ScalarType | undefined,
      inner?: () => Rules,
    ): FieldCost => ({
      wireType,
      work: workOf(wireType),
      isString: scalar === ScalarType.STRING,
      packable: false,
      repeated: false,
      spend: spendNumbers,
      counted: () => {},
      inner,
    });
    const key = partOf(wireTypes[field.mapKey], field.mapKey);
    const value =
      message === undefined
        ? partOf(scalarWireType(field), field.scalar)
        : partOf(lengthDelimitedType, undefined, () => fieldsOf(message));
    const entry = new Fields(
      new Map([
        [1, key],
        [2, value],
      ]),
    );
    return () => entry;
  }
  if (message === undefined || wireTypeOf(field) === startGroupType) {
    return undefined;
  }
  return () => fieldsOf(message);
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
