// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import * as page from "./browser.ts";
import * as api from "./index.ts";

test("the public names are these", () => {
  expect(Object.keys(api).sort()).toMatchInlineSnapshot(`
    [
      "addReflection",
      "channelName",
      "createEnvironmentServer",
      "createHealthBoard",
      "defaultLimits",
      "defineEnvironment",
      "defineWorld",
      "dialOut",
      "extension",
      "freeRunning",
      "lockstep",
      "optional",
      "property",
      "realtime",
      "refuse",
      "requestChannelName",
      "required",
      "seededRandom",
      "serve",
      "systemTime",
      "trustedLimits",
      "turns",
      "wakeUp",
      "withDefault",
    ]
  `);
});

test("the build for pages has all public names except those that need a port", () => {
  const missing = Object.keys(api).filter((name) => !(name in page));
  expect(missing.sort()).toEqual(["addReflection", "createHealthBoard", "serve"]);
});
