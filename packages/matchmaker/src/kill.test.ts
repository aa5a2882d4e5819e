// SPDX-License-Identifier: Apache-2.0
import { fileURLToPath } from "node:url";
import { hasRedis, Program, RedisServer, sayWhetherRedis } from "@dm-env-rpc/tests-processes";
import { describe, expect, it } from "vitest";
import { counting } from "../testing/world-server.ts";
import { joinMatch, type MatchmakerClient, matchmakerClient } from "./client/index.ts";

sayWhetherRedis();

/** Number of agents: half of them call before the kill, half after it. */
const agents = 40;

const program = (name: string): string =>
  fileURLToPath(new URL(`../testing/programs/${name}.ts`, import.meta.url));

/** Returns true if a matchmaker's last event says that it leads. */
const leads = ({ stdout }: Program): boolean =>
  stdout.lastIndexOf("leading\n") > stdout.lastIndexOf("following\n");

/** Plays until a sequence has ended, even if processes die in the meantime. */
async function playOne(matchmaker: MatchmakerClient): Promise<void> {
  for (;;) {
    const assignment = await matchmaker.findMatch();
    try {
      await using env = await joinMatch(assignment, { as: counting });
      let step = await env.reset();
      while (!step.last()) {
        step = await env.step({ add: 1 });
      }
      return;
    } catch {
      // The server is gone, and this ticket is no longer followed, so it must not be matched again.
      await matchmaker.cancel(assignment.ticketId).catch(() => {});
    }
  }
}

describe.skipIf(!hasRedis)("matchmakers and servers as processes", () => {
  it("let every agent finish a sequence although the leader and a server are killed", async () => {
    await using redis = await RedisServer.start();
    await using first = await Program.serving(program("matchmaker"), [redis.url]);
    await using second = await Program.serving(program("matchmaker"), [redis.url]);
    await using third = await Program.serving(program("matchmaker"), [redis.url]);
    const matchmakers = [first, second, third].map(({ url }) => url);
    await using doomed = await Program.serving(program("world-server"), matchmakers);
    await using _other = await Program.serving(program("world-server"), [...matchmakers].reverse());
    await using _another = await Program.serving(
      program("world-server"),
      [...matchmakers].reverse(),
    );
    const matchmaker = matchmakerClient(matchmakers);
    let finished = 0;
    let isTime = (): void => {};
    const underWay = new Promise<void>((resolve) => {
      isTime = resolve;
    });
    const play = async (): Promise<void> => {
      await playOne(matchmaker);
      finished += 1;
      if (finished === 4) {
        isTime();
      }
    };
    const early = Array.from({ length: agents / 2 }, play);
    await underWay;
    const all = [first, second, third];
    await expect.poll(() => all.filter(leads)).toHaveLength(1);
    const [leader = first] = all.filter(leads);
    await Promise.all([leader.kill(), doomed.kill()]);
    const late = Array.from({ length: agents / 2 }, play);
    await Promise.all([...early, ...late]);
    expect(finished).toBe(agents);
    // Exactly one of the others has taken over.
    const heirs = all.filter((program) => program !== leader);
    await expect.poll(() => heirs.filter(leads)).toHaveLength(1);
  });
});
