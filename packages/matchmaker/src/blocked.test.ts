// SPDX-License-Identifier: Apache-2.0
import { fileURLToPath } from "node:url";
import { hasRedis, Program, RedisServer, sayWhetherRedis } from "@dm-env-rpc/tests-processes";
import { expect, it } from "vitest";
import { serveCounting } from "../testing/world-server.ts";
import { matchmakerClient } from "./client/index.ts";

sayWhetherRedis();

const program = fileURLToPath(
  new URL("../testing/programs/blocked-matchmaker.ts", import.meta.url),
);

it.skipIf(!hasRedis)(
  "agents are matched although the match function of another profile blocks each leader for longer than its lease",
  async () => {
    await using redis = await RedisServer.start();
    await using first = await Program.serving(program, [redis.url]);
    await using second = await Program.serving(program, [redis.url]);
    const urls = [first.url, second.url];
    await using _server = await serveCounting(urls);
    const matchmaker = matchmakerClient(urls);
    const ending = new AbortController();
    const waiting = matchmaker.findMatch({ profile: "slow" }, { signal: ending.signal }).then(
      () => "matched",
      () => "aborted",
    );
    const blocks = (): number =>
      [first, second].reduce((sum, { stdout }) => sum + stdout.split("blocked\n").length - 1, 0);
    await expect.poll(blocks, { timeout: 60_000 }).toBeGreaterThan(0);
    for (let match = 0; match < 10; match++) {
      const pair = [1, 2].map(() => matchmaker.findMatch({ profile: "pairs" }));
      const [one, other] = await Promise.all(pair);
      expect(one?.worldName).toBe(other?.worldName);
      await Promise.all([one, other].map((each) => matchmaker.cancel(each?.ticketId ?? "")));
    }
    // Each process has called it once, and pauses it for a minute.
    expect(blocks()).toBeLessThanOrEqual(2);
    ending.abort();
    expect(await waiting).toBe("aborted");
  },
  120_000,
);
