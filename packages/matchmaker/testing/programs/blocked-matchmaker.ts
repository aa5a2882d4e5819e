// SPDX-License-Identifier: Apache-2.0
// Runs a matchmaker with the default settings as a process. The match function of the profile "slow" blocks the process for
// six seconds, which is longer than the leader's lease: node blocked-matchmaker.ts REDIS_URL

import { create } from "@bufbuild/protobuf";
import { MatchProfileSchema } from "@dm-env-rpc/protocol/matchmaker";
import { redisStore } from "../../src/redis/index.ts";
import { serveMatchmaker } from "../../src/serve-matchmaker.ts";
import { pairs } from "../pairs.ts";

const blockMs = 6_000;

const served = await serveMatchmaker({
  store: await redisStore({ url: process.argv[2] ?? "" }),
  profiles: [
    pairs,
    create(MatchProfileSchema, {
      name: "slow",
      pools: [{ name: "all" }],
      matchFunction: { function: { case: "custom", value: { name: "block" } } },
      worldType: "counting",
      seats: 2,
    }),
  ],
  functions: {
    block: () => {
      for (const endMs = performance.now() + blockMs; performance.now() < endMs; ) {
        // Nothing else runs.
      }
      process.stdout.write("blocked\n");
      return [];
    },
  },
});
process.stdout.write(`listening on ${served.url}\n`);
