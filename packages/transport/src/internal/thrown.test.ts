// SPDX-License-Identifier: Apache-2.0
import { Code, ConnectError } from "@connectrpc/connect";
import { describe, expect, it } from "vitest";
import { messageOf, toError } from "./thrown.ts";

describe("a thrown value", () => {
  it.each([
    [new TypeError("no dog"), "no dog"],
    [new ConnectError("no dog", Code.NotFound), "no dog"],
    ["no dog", "no dog"],
    [undefined, "undefined"],
    [Symbol("dog"), "Symbol(dog)"],
    [Object.create(null), "a value without a text"],
  ])("has a message, whatever it is: %#", (thrown, message) => {
    expect(messageOf(thrown)).toBe(message);
  });

  it("is returned unchanged if it is an Error, and otherwise becomes the cause of an Error", () => {
    const error = new TypeError("no dog");
    expect(toError(error)).toBe(error);
    expect(toError("no dog")).toMatchObject({ message: "no dog", cause: "no dog" });
    expect(toError(Object.create(null))).toBeInstanceOf(Error);
  });
});
