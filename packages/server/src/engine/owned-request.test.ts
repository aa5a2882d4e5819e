// SPDX-License-Identifier: Apache-2.0
import { setImmediate as turn } from "node:timers/promises";
import { pack, t } from "@dm-env-rpc/tensor-codec";
import { expect, it } from "vitest";
import { networkPeer, serving } from "../../testing/network.ts";
import type { Peer } from "../../testing/peer.ts";
import { freeRunning } from "../clocks/free-running.ts";
import { defineWorld } from "../definition/world.ts";

/** Moves of the world's agents, in the order in which the world received them. */
type Moves = [agent: number, move: number][];

function slowWorld(moves: Moves) {
  return defineWorld({
    name: "slow",
    clock: freeRunning(),
    agents: { min: 1, max: 2 },
    actions: { move: t.int8() },
    observations: {},
    create: () => ({
      async step(actions) {
        await turn();
        for (const [agent, { move }] of actions) {
          moves.push([agent, move ?? -1]);
        }
      },
      observe: {},
    }),
  });
}

/** A step with a move, whose response need not arrive before the next step. */
const move = (peer: Peer, value: number): Promise<unknown> =>
  peer.step({ move: pack(value, { dtype: "int8" }) });

it("steps that are queued behind an earlier step keep their own actions", async () => {
  const moves: Moves = [];
  await using server = await serving({ worlds: [slowWorld(moves)] });
  await using peer = await networkPeer(server);
  await peer.join(await peer.createWorld());
  await peer.step();
  const sent = Array.from({ length: 50 }, (_, i) => i);
  await Promise.all(sent.map((value) => move(peer, value)));
  expect(moves).toEqual(sent.map((value) => [1, value]));
});

it("a step that is queued behind another agent's step keeps its own actions", async () => {
  const moves: Moves = [];
  await using server = await serving({ worlds: [slowWorld(moves)] });
  await using first = await networkPeer(server);
  await using second = await networkPeer(server);
  const world = await first.createWorld();
  await first.join(world);
  await second.join(world);
  await Promise.all([first.step(), second.step()]);
  const values = Array.from({ length: 20 }, (_, i) => i);
  await Promise.all(values.flatMap((i) => [move(first, i), move(second, 100 + i)]));
  const of = (agent: number) => moves.filter(([who]) => who === agent).map(([, value]) => value);
  expect(of(1)).toEqual(values);
  expect(of(2)).toEqual(values.map((i) => 100 + i));
});
