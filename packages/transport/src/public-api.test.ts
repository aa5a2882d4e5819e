// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import * as api from "./index.ts";

test("the package exports only the listed names", () => {
  expect(Object.keys(api).sort()).toMatchInlineSnapshot(`
    [
      "ListenLimitTable",
      "isLoopback",
      "listen",
      "maxTimeoutMs",
      "memoryStreamPair",
      "openConnectStream",
      "openStream",
      "parseAddress",
      "peerOfCall",
      "readLimits",
    ]
  `);
});
