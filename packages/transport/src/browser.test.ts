// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import * as page from "./browser.ts";
import * as node from "./index.ts";

test("the build for browsers exports only these of the public names", () => {
  expect(Object.keys(page).sort()).toMatchInlineSnapshot(`
    [
      "ListenLimitTable",
      "isLoopback",
      "maxTimeoutMs",
      "memoryStreamPair",
      "openStream",
      "parseAddress",
      "peerOfCall",
      "readLimits",
    ]
  `);
  expect(Object.keys(node)).toEqual(expect.arrayContaining(Object.keys(page)));
});

test.each(["localhost:8980", "https://localhost:8980"])(
  "a page that opens %s gets an error that names the address to use",
  async (address) => {
    const error = await page.openStream(address).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: "INVALID_ARGUMENT", origin: "client" });
    expect(String(error)).toContain('"ws://localhost:8980"');
  },
);

test("a page cannot choose certificates or pings", async () => {
  const opening = page.openStream("ws://localhost:1", { pingIntervalMs: 1_000 });
  await expect(opening).rejects.toThrow(
    /option pingIntervalMs: expected undefined, because the platform's WebSocket manages it/,
  );
});
