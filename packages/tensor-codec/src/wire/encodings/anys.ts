// SPDX-License-Identifier: Apache-2.0
import type { Any } from "@bufbuild/protobuf/wkt";
import { tooManyEntries } from "../../errors/limits.ts";
import { loneSurrogate } from "../../tensors/element-error.ts";
import { begin, delimitedSize } from "../primitives/delimited.ts";
import type { ReadOptions } from "../primitives/read-options.ts";
import { objectWork, type Reader } from "../primitives/reader.ts";
import { utf8Length, writeUtf8 } from "../primitives/utf8.ts";
import { arrayTag, lengthDelimitedType } from "../primitives/wire-type.ts";
import { viewBytes } from "./bytes.ts";
import type { RepeatedEncoding } from "./encoding.ts";
import { nextElement, readString } from "./repeated-fields.ts";

const typeUrlTag = (1 << 3) | lengthDelimitedType;
const valueTag = (2 << 3) | lengthDelimitedType;

/** Shared, because it is immutable: a hostile array may hold millions of empty Anys. */
const noBytes = new Uint8Array(0);

/** `repeated google.protobuf.Any`. */
export const anys: RepeatedEncoding<Any[]> = {
  packed: false,
  size: (tensor, sizes) => {
    const { data } = tensor;
    let size = 0;
    for (let i = 0; i < data.length; i++) {
      const { typeUrl, value } = data[i] as Any;
      const place = sizes.reserve();
      const length = sizes.record(utf8Length(typeUrl));
      if (length < 0) {
        throw loneSurrogate("a type URL", typeUrl, i, tensor);
      }
      size += delimitedSize(
        sizes.put(
          place,
          (length === 0 ? 0 : delimitedSize(length)) +
            (value.length === 0 ? 0 : delimitedSize(value.length)),
        ),
      );
    }
    return size;
  },
  write: (data, sizes, target, pos) => {
    for (const { typeUrl, value } of data) {
      pos = begin(arrayTag, sizes.take(), target, pos);
      const length = sizes.take();
      if (length > 0) {
        pos = writeUtf8(typeUrl, length, target, begin(typeUrlTag, length, target, pos));
      }
      if (value.length > 0) {
        pos = begin(valueTag, value.length, target, pos);
        target.set(value, pos);
        pos += value.length;
      }
    }
    return pos;
  },
  read: (reader, options) => {
    const out: Any[] = [];
    while (nextElement(reader, out.length, options)) {
      if (out.length === options.maxEntries) {
        throw tooManyEntries(options.maxEntries);
      }
      const stop = reader.delimited();
      out.push(reader.inner(stop, () => readAny(reader, options)));
    }
    return out;
  },
};

function readAny(reader: Reader, options: ReadOptions): Any {
  let typeUrl = "";
  let value: Uint8Array | undefined;
  while (reader.pos < reader.end) {
    const tag = reader.tag();
    reader.spend(objectWork);
    if (tag === typeUrlTag) {
      typeUrl = readString(reader, options);
    } else if (tag === valueTag) {
      const stop = reader.delimited();
      value = viewBytes(reader, reader.pos, stop, options.copy);
      reader.pos = stop;
    } else {
      reader.skip(tag);
    }
  }
  return { $typeName: "google.protobuf.Any", typeUrl, value: value ?? noBytes };
}
