// SPDX-License-Identifier: Apache-2.0
import { isDmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { describe, expect, it } from "vitest";
import { at, readPage } from "./pages.ts";
import { provoked } from "./provoked.ts";

const page = readPage("docs/troubleshooting.md");

/** The messages of the page, which are its headings, each with the code at the start of its text. */
const messages = page.text.split("\n").flatMap((line, index, lines) => {
  const [, text] = /^### `(.*)`$/.exec(line) ?? [];
  const [, code] = /^([A-Z_]{2,})\b/.exec(lines[index + 2] ?? "") ?? [];
  return text === undefined ? [] : [{ text, code, place: at(page, index + 1) }];
});

/** Returns true if a message matches one of the page, in which `…` stands for a variable part. */
function fits(message: string, text: string): boolean {
  let from = 0;
  for (const part of text.split("…")) {
    const found = message.indexOf(part, from);
    if (found < 0) {
      return false;
    }
    from = found + part.length;
  }
  return true;
}

describe("docs/troubleshooting.md", () => {
  const produced: string[] = [];

  it.each(Object.entries(provoked))("has the message of %s", async (_name, provoke) => {
    const error = await provoke();
    produced.push(error.message);
    // If several match, the longest is the most specific.
    const [found] = messages
      .filter(({ text }) => fits(error.message, text))
      .sort((one, other) => other.text.length - one.text.length);
    expect(found, `a heading for: ${error.message}`).toBeDefined();
    if (found?.code !== undefined) {
      expect(isDmEnvRpcError(error) && error.code, found.place).toBe(found.code);
    }
  });

  it("lists only messages that the tests provoke", () => {
    const others = messages.filter(({ text }) => !produced.some((message) => fits(message, text)));
    expect(others.map(({ place, text }) => `${place}: ${text}`)).toEqual([]);
  });
});
