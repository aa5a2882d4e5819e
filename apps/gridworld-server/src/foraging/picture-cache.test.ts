// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import { PictureCache } from "./picture-cache.ts";

it("keeps the last picture of each board, and drops the oldest ones above its bytes", () => {
  const cache = new PictureCache(30);
  const [one, two, three] = [Symbol(), Symbol(), Symbol()];
  const picture = (value: number): Uint8Array => new Uint8Array(10).fill(value);
  cache.keep(one, 0, picture(1));
  cache.keep(one, 5, picture(2));
  expect(cache.get(one, 0)).toBeUndefined();
  expect(cache.get(one, 5)).toEqual(picture(2));
  cache.keep(two, 0, picture(3));
  cache.keep(three, 0, picture(4));
  cache.keep(one, 6, picture(5));
  expect([one, two, three].map((board, i) => cache.get(board, i === 0 ? 6 : 0)?.[0])).toEqual([
    5, 3, 4,
  ]);
  cache.keep(Symbol(), 0, picture(6));
  expect(cache.get(two, 0)).toBeUndefined();
  expect(cache.get(three, 0)).toEqual(picture(4));
  expect(cache.get(one, 6)).toEqual(picture(5));
  cache.keep(two, 0, new Uint8Array(31));
  expect(cache.get(two, 0)).toBeUndefined();
});
