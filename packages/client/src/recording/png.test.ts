// SPDX-License-Identifier: Apache-2.0
import { crc32, inflateSync } from "node:zlib";
import { tensor } from "@dm-env-rpc/tensor-codec";
import { encodePng } from "@dm-env-rpc/transport/internal/png";
import { describe, expect, test } from "vitest";

describe("a PNG", () => {
  /** The parts of a PNG, each with its checksum checked. */
  function partsOf(png: Uint8Array): Map<string, Buffer> {
    const bytes = Buffer.from(png);
    expect(bytes.subarray(0, 8).toString("latin1")).toBe("\x89PNG\r\n\x1a\n");
    const parts = new Map<string, Buffer>();
    for (let at = 8; at < bytes.length; ) {
      const end = at + 8 + bytes.readUInt32BE(at);
      expect(bytes.readUInt32BE(end)).toBe(crc32(bytes.subarray(at + 4, end)));
      parts.set(bytes.toString("latin1", at + 4, at + 8), bytes.subarray(at + 8, end));
      at = end + 4;
    }
    return parts;
  }

  test.each([
    [[2, 3, 3], 2],
    [[2, 3, 4], 6],
    [[2, 3, 1], 0],
    [[2, 3], 0],
    [[2, 3, 2], 4],
  ])("of a picture of shape %j has its size, colours and pixels", (shape, colourType) => {
    const channels = shape[2] ?? 1;
    const data = Uint8Array.from({ length: 6 * channels }, (_, i) => i * 3);
    const parts = partsOf(encodePng(tensor("uint8", shape, data)));
    const header = parts.get("IHDR");
    expect([header?.readUInt32BE(0), header?.readUInt32BE(4), header?.[8], header?.[9]]).toEqual([
      3,
      2,
      8,
      colourType,
    ]);
    const row = 3 * channels;
    expect(new Uint8Array(inflateSync(parts.get("IDAT") ?? Buffer.alloc(0)))).toEqual(
      Uint8Array.of(0, ...data.subarray(0, row), 0, ...data.subarray(row)),
    );
    expect([...parts.keys()]).toEqual(["IHDR", "IDAT", "IEND"]);
  });

  test("of a tensor that is not a picture is refused", () => {
    expect(() => encodePng(tensor("float32", [1, 1, 3], new Float32Array(3)))).toThrow(/float32/);
    expect(() => encodePng(tensor("uint8", [1, 1, 5], new Uint8Array(5)))).toThrow(/\[1,1,5\]/);
    expect(() => encodePng(tensor("uint8", [0, 1, 3], new Uint8Array(0)))).toThrow(/picture/);
  });
});
