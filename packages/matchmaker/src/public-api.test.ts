// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import * as agones from "./agones/index.ts";
import * as client from "./client/index.ts";
import * as matchmaker from "./index.ts";
import * as redis from "./redis/index.ts";
import * as registration from "./registration/index.ts";

test("the public names are these", () => {
  expect({
    matchmaker: Object.keys(matchmaker).sort(),
    agones: Object.keys(agones).sort(),
    client: Object.keys(client).sort(),
    redis: Object.keys(redis).sort(),
    registration: Object.keys(registration).sort(),
  }).toEqual({
    matchmaker: [
      "StoreError",
      "byCount",
      "createMatchmaker",
      "defaultSettings",
      "generateSigningKey",
      "isStoreError",
      "memoryStore",
      "networkServers",
      "serveMatchmaker",
      "signingKeyFromPem",
      "skillWindow",
      "systemTime",
      "teams",
      "workerFunction",
    ],
    agones: ["agonesAllocator", "gameServerLabel"],
    client: ["joinMatch", "matchmakerClient", "pageOf"],
    redis: ["redisStore"],
    registration: ["register", "serveRegistered"],
  });
});
