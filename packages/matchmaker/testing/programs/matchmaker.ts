// SPDX-License-Identifier: Apache-2.0
// Runs a matchmaker as a process: node matchmaker.ts REDIS_URL

import { redisStore } from "../../src/redis/index.ts";
import { serveMatchmaker } from "../../src/serve-matchmaker.ts";
import { pairs } from "../pairs.ts";

const served = await serveMatchmaker({
  store: await redisStore({ url: process.argv[2] ?? "" }),
  profiles: [pairs],
  settings: { leaderLeaseMs: 1_000, serverLeaseMs: 1_500, lostServerMs: 500, tickMs: 100 },
  onEvent: ({ kind }) => {
    if (kind === "leading" || kind === "following") {
      process.stdout.write(`${kind}\n`);
    }
  },
});
process.stdout.write(`listening on ${served.url}\n`);
