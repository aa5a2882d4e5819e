// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import * as client from "./index.ts";

test("the public names are these", () => {
  expect(Object.keys(client).sort()).toMatchInlineSnapshot(`
    [
      "connect",
      "defaultMaxInFlight",
      "defaultMaxWaiting",
      "gymnasium",
      "isRefusal",
      "properties",
      "run",
      "sendExtension",
      "timeStep",
      "versions",
      "worldFate",
    ]
  `);
});
