// SPDX-License-Identifier: Apache-2.0
import { defineEnvironment, serve } from "@dm-env-rpc/server";
import { legalActions, t } from "@dm-env-rpc/tensor-codec";
import { expect, test } from "vitest";
import { playRandomly } from "./play.ts";

const move = t.int8({ min: -2, max: 2 });
const fire = t.discrete(3);

test("a masked discrete action has a legal value in every step", async () => {
  const taken: number[] = [];
  let legal = [false, true, false, false, true];
  const maze = defineEnvironment({
    name: "maze",
    actions: { move, turn: t.float32({ min: 0, max: 1 }) },
    observations: { legal_actions: legalActions(move) },
    create: () => ({
      reset: () => ({ legal_actions: legal }),
      step({ move = 0, turn }) {
        expect(turn).toBeTypeOf("number");
        expect(legal[move + 2]).toBe(true);
        taken.push(move);
        legal = legal.map((isLegal) => !isLegal);
        return { observation: { legal_actions: legal } };
      },
    }),
  });
  await using server = await serve({ worlds: [maze] });
  await playRandomly({ address: new URL(server.url).host, agents: 1, steps: 100, seed: 1n });
  expect(taken).toHaveLength(99);
  expect(new Set(taken)).toEqual(new Set([-2, -1, 0, 1, 2]));
});

test("each of several discrete actions has its own mask and is omitted if no value is legal", async () => {
  const fired = new Set<unknown>();
  const moved = new Set<unknown>();
  const tank = defineEnvironment({
    name: "tank",
    actions: { body: { move }, fire, aim: t.discrete(2) },
    observations: {
      legal_actions: { body: { move: legalActions(move) }, fire: legalActions(fire) },
    },
    create() {
      const observe = () => ({
        legal_actions: {
          body: { move: [true, false, false, false, false] },
          fire: [false, false, false],
        },
      });
      return {
        reset: observe,
        step({ body, fire, aim }) {
          moved.add(body?.move);
          fired.add(fire);
          expect(aim).toBeTypeOf("number");
          return { observation: observe() };
        },
      };
    },
  });
  await using server = await serve({ worlds: [tank] });
  await playRandomly({ address: new URL(server.url).host, agents: 1, steps: 20, seed: 1n });
  expect([moved, fired]).toEqual([new Set([-2]), new Set([undefined])]);
});

test("an observation of another form is not used as a mask", async () => {
  const moved = new Set<unknown>();
  const other = defineEnvironment({
    name: "other",
    actions: { move },
    observations: { legal_actions: t.int32([3]) },
    create: () => ({
      reset: () => ({ legal_actions: [0, 0, 0] }),
      step({ move }) {
        moved.add(move);
        return { observation: { legal_actions: [0, 0, 0] } };
      },
    }),
  });
  await using server = await serve({ worlds: [other] });
  await playRandomly({ address: new URL(server.url).host, agents: 1, steps: 100, seed: 1n });
  expect(moved.size).toBe(5);
});
