// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError, t } from "@dm-env-rpc/tensor-codec";
import type { ProcessRequest } from "@dm-env-rpc/tensor-codec/wire";
import { expect, test } from "vitest";
import { playRandomly } from "./play.ts";
import { startPeer } from "./testing/peer.ts";

const actions = {
  move: t.discrete(5),
  arm: { turn: t.float32([2], { min: -1, max: 1 }), grip: t.bool() },
  seed: t.uint64([2]),
  say: t.string(),
  path: t.int8([-1, 2]),
  free: t.float64(),
  any: t.proto(),
};

function actionsOf(requests: readonly ProcessRequest[]) {
  return requests.flatMap((request) => (request.case === "step" ? [request.value.actions] : []));
}

test("agents make their steps in a new world, which is destroyed at the end", async () => {
  await using peer = await startPeer({ actions, sequenceLength: 4 });
  const summary = await playRandomly({ address: peer.address, agents: 3, steps: 11, seed: 1n });
  expect(summary).toMatchObject({ world: "arena", steps: 33, sequences: 6, endedEarly: false });
  expect(summary.meanReturn).toBe(2);
  expect(summary.agents.map(({ steps, sequences }) => [steps, sequences])).toEqual(
    Array(3).fill([11, 2]),
  );
  const [host, ...agents] = peer.requests;
  expect(host?.map((request) => request.case)).toEqual(["createWorld", "destroyWorld"]);
  for (const requests of agents) {
    expect(requests.at(-1)?.case).toBe("leaveWorld");
  }
});

test("a named world is joined and not destroyed", async () => {
  await using peer = await startPeer({ actions, sequenceLength: 4 });
  await playRandomly({ address: peer.address, agents: 1, world: "arena", steps: 2, seed: 1n });
  expect(peer.requests.flat().map((request) => request.case)).toEqual([
    "joinWorld",
    "step",
    "step",
    "leaveWorld",
  ]);
});

test("all agents join before the first one steps", async () => {
  let joined = 0;
  const joinedAtStep: number[] = [];
  await using peer = await startPeer({
    actions,
    sequenceLength: 4,
    onRequest: ({ case: kind }) => {
      if (kind === "joinWorld") {
        joined++;
      }
      if (kind === "step") {
        joinedAtStep.push(joined);
      }
      return undefined;
    },
  });
  await playRandomly({ address: peer.address, agents: 4, steps: 3, seed: 1n });
  expect(new Set(joinedAtStep)).toEqual(new Set([4]));
});

test("the same seed makes the same choices, different for each agent", async () => {
  const play = async (seed: bigint) => {
    await using peer = await startPeer({ actions, sequenceLength: 4 });
    await playRandomly({ address: peer.address, agents: 2, steps: 20, seed });
    return peer.requests
      .slice(1)
      .map(actionsOf)
      .sort((a, b) => (JSON.stringify(a, text) < JSON.stringify(b, text) ? -1 : 1));
  };
  const text = (_key: string, value: unknown) =>
    typeof value === "bigint" ? String(value) : value;
  const first = await play(5n);
  expect(await play(5n)).toEqual(first);
  expect(first[0]).not.toEqual(first[1]);
  expect(await play(6n)).not.toEqual(first);
});

test("every kind of action is chosen, within its bounds", async () => {
  await using peer = await startPeer({ actions, sequenceLength: 400 });
  await playRandomly({ address: peer.address, agents: 1, steps: 300, seed: 3n });
  const [first, ...others] = actionsOf(peer.requests[1] ?? []);
  expect(first).toEqual([]);
  const moves = new Set<unknown>();
  const lengths = new Set<unknown>();
  for (const chosen of others) {
    expect(chosen).toHaveLength(8);
    moves.add(chosen[0]?.tensor.data[0]);
    lengths.add(chosen[5]?.tensor.shape[0]);
  }
  expect(moves).toEqual(new Set([0, 1, 2, 3, 4]));
  expect(lengths.size).toBeGreaterThan(3);
});

test("a promise of onTimeStep is awaited before that agent's next step", async () => {
  await using peer = await startPeer({ actions, sequenceLength: 4 });
  let release: () => void = () => undefined;
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  const stepsOf = [0, 0];
  const playing = playRandomly({
    address: peer.address,
    agents: 2,
    steps: 5,
    seed: 1n,
    onTimeStep: (agent) => {
      stepsOf[agent] = (stepsOf[agent] ?? 0) + 1;
      if (agent === 1 && stepsOf[1] === 5) {
        release();
      }
      return agent === 0 ? held : undefined;
    },
  });
  await held;
  expect(stepsOf).toEqual([1, 5]);
  await playing;
  expect(stepsOf).toEqual([5, 5]);
});

test("a signal ends the play early, with a summary of the steps so far", async () => {
  await using peer = await startPeer({ actions, sequenceLength: 4 });
  const controller = new AbortController();
  let steps = 0;
  const summary = await playRandomly({
    address: peer.address,
    agents: 2,
    steps: 1_000_000,
    seed: 1n,
    signal: controller.signal,
    onTimeStep: () => {
      if (++steps === 10) {
        controller.abort();
      }
    },
  });
  expect(summary.endedEarly).toBe(true);
  expect(summary.steps).toBeGreaterThanOrEqual(10);
  expect(peer.requests[0]?.at(-1)?.case).toBe("destroyWorld");
});

test("a signal ends a step that is never answered", async () => {
  const controller = new AbortController();
  await using peer = await startPeer({
    actions,
    sequenceLength: 4,
    onRequest: ({ case: kind }) => {
      if (kind !== "step") {
        return undefined;
      }
      controller.abort();
      return "silence";
    },
  });
  const summary = await playRandomly({
    address: peer.address,
    agents: 1,
    steps: 5,
    seed: 1n,
    signal: controller.signal,
  });
  expect(summary).toMatchObject({ steps: 0, endedEarly: true });
});

test("a server that dies ends all agents at once with an error", async () => {
  let steps = 0;
  await using peer = await startPeer({
    actions,
    sequenceLength: 4,
    onRequest: ({ case: kind }) => {
      if (kind === "step" && ++steps === 9) {
        peer.crash();
      }
      return undefined;
    },
  });
  await expect(
    playRandomly({ address: peer.address, agents: 3, steps: 1000, seed: 1n }),
  ).rejects.toThrow(/lost|unanswered/);
});

test("an agent's failure ends the others and is thrown", async () => {
  await using peer = await startPeer({
    actions,
    sequenceLength: 4,
    onRequest: ({ case: kind }, agent) => {
      if (kind === "step" && agent === 2) {
        throw new DmEnvRpcError("NOT_FOUND", "the world is gone");
      }
      return undefined;
    },
  });
  await expect(
    playRandomly({ address: peer.address, agents: 3, steps: 1_000_000, seed: 1n }),
  ).rejects.toMatchObject({ code: "NOT_FOUND", message: "the world is gone" });
  expect(peer.requests[0]?.at(-1)?.case).toBe("destroyWorld");
});
