// SPDX-License-Identifier: Apache-2.0
import { loneSurrogate } from "../../tensors/element-error.ts";
import { begin, delimitedSize } from "../primitives/delimited.ts";
import { readUtf8, utf8Length, writeUtf8 } from "../primitives/utf8.ts";
import { arrayTag } from "../primitives/wire-type.ts";
import type { RepeatedEncoding } from "./encoding.ts";
import { nextElement, tooLongString } from "./repeated-fields.ts";

/** `repeated string`. */
export const strings: RepeatedEncoding<string[]> = {
  packed: false,
  size: (tensor, sizes) => {
    const { data } = tensor;
    let size = 0;
    for (let i = 0; i < data.length; i++) {
      const length = sizes.record(utf8Length(data[i] as string));
      if (length < 0) {
        throw loneSurrogate("a string", data[i], i, tensor);
      }
      size += delimitedSize(length);
    }
    return size;
  },
  write: (data, sizes, target, pos) => {
    for (let i = 0; i < data.length; i++) {
      const length = sizes.take();
      pos = writeUtf8(data[i] as string, length, target, begin(arrayTag, length, target, pos));
    }
    return pos;
  },
  read: (reader, options) => {
    const out: string[] = [];
    while (nextElement(reader, out.length, options)) {
      const stop = reader.delimited();
      const { source, pos } = reader;
      if (stop - pos > options.maxStringBytes) {
        throw tooLongString(reader, stop - pos, options);
      }
      const text = readUtf8(source, pos, stop);
      if (text === undefined) {
        throw reader.malformed("UTF-8", "bytes that are not UTF-8", pos);
      }
      out.push(text);
      reader.pos = stop;
    }
    return out;
  },
};
