// SPDX-License-Identifier: Apache-2.0
import { connect } from "@dm-env-rpc/client";
import { ticTacToe } from "@dm-env-rpc/example-tic-tac-toe";
import { playRandomly } from "@dm-env-rpc/random-agent";
import { type ServerEvent, serve } from "@dm-env-rpc/server";
import { describe, expect, it } from "vitest";

describe("tic-tac-toe", () => {
  it("behaviour 68: refuses an illegal move with INVALID_ARGUMENT and accepts the next legal one", async () => {
    await using server = await serve({ worlds: [ticTacToe] });
    await using first = await connect(server.url);
    await using second = await connect(server.url);
    const world = await first.createWorld();
    const one = await first.join(world, { as: ticTacToe });
    const two = await second.join(world, { as: ticTacToe });
    const begun = [one.reset(), two.reset()] as const;
    expect((await begun[0]).state).toBe("running");
    const answered = one.step({ field: 4 });
    const seen = await begun[1];
    expect([...seen.observation.board.data]).toEqual([0, 0, 0, 0, -1, 0, 0, 0, 0]);
    expect([...seen.observation.legal_actions.data]).toEqual([1, 1, 1, 1, 0, 1, 1, 1, 1]);
    const refused = { code: "INVALID_ARGUMENT", message: "expected a free field, received 4" };
    await expect(two.step({ field: 4 })).rejects.toMatchObject(refused);
    await expect(two.step({})).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
    const waiting = two.step({ field: 0 });
    expect([...(await answered).observation.board.data]).toEqual([-1, 0, 0, 0, 1, 0, 0, 0, 0]);
    await one.close();
    expect((await waiting).state).toBe("interrupted");
  });

  it("is played to its end by random agents, which never move illegally", async () => {
    const events: ServerEvent[] = [];
    await using server = await serve({
      worlds: [ticTacToe],
      onEvent: (event) => void events.push(event),
    });
    const { sequences, endedEarly } = await playRandomly({
      address: new URL(server.url).host,
      agents: 2,
      steps: 300,
      seed: 1n,
    });
    expect(sequences).toBeGreaterThan(50);
    expect(endedEarly).toBe(false);
    expect(events.filter(({ kind }) => kind === "world-failed")).toEqual([]);
  });
});
