// SPDX-License-Identifier: Apache-2.0
import { t } from "@dm-env-rpc/tensor-codec";
import { expect, it } from "vitest";
import { connectPeer, joinedPeers, type Peer } from "../../testing/peer.ts";
import { tally } from "../../testing/tally.ts";
import { defineEnvironment } from "../definition/environment.ts";
import { createEnvironmentServer } from "./environment-server.ts";
import type { ServedWorld } from "./served-worlds.ts";

it("lists the worlds of a server with their counts", async () => {
  const [premade, made] = ["tally-1", "tally-2"];
  await using server = createEnvironmentServer({ worlds: [tally()], premade: [{}] });
  await server.ready;
  const fresh = { type: "tally", agents: 0, joins: 0, sequences: 0 };
  expect(server.worlds()).toEqual([{ ...fresh, name: premade, premade: true }]);
  const before = server.worlds();
  const host = connectPeer(server);
  await host.createWorld({ length: 1 });
  const [one, two] = (await joinedPeers(server, made as string, 2)) as [Peer, Peer];
  for (let round = 0; round < 3; round++) {
    await Promise.all([one.step(), two.step()]);
  }
  await one.leave();
  expect(server.worlds()).toEqual([
    { ...fresh, name: premade, premade: true },
    { name: made, type: "tally", agents: 1, joins: 2, sequences: 2, premade: false },
  ]);
  await host.destroyWorld(premade as string);
  expect(server.worlds().map(({ name }) => name)).toEqual([made]);
  expect(before).toEqual([{ ...fresh, name: premade, premade: true }]);
});

it("`worlds()` is up to date whenever an event is emitted", async () => {
  const told: [string, readonly ServedWorld[]][] = [];
  const length = (n: number) => ({ length: n });
  await using server = createEnvironmentServer({
    worlds: [tally()],
    onEvent: ({ kind }) => {
      if (!kind.startsWith("connection")) {
        told.push([kind, server.worlds()]);
      }
    },
  });
  const [host, peer] = [connectPeer(server), connectPeer(server)];
  const name = await host.createWorld(length(1));
  await peer.join(name);
  await peer.step();
  await peer.leave();
  await host.destroyWorld(name);
  const world = { name, type: "tally", premade: false };
  expect(told).toEqual([
    ["world-created", [{ ...world, agents: 0, joins: 0, sequences: 0 }]],
    ["agent-joined", [{ ...world, agents: 1, joins: 1, sequences: 0 }]],
    ["sequence-started", [{ ...world, agents: 1, joins: 1, sequences: 1 }]],
    ["agent-left", [{ ...world, agents: 0, joins: 1, sequences: 1 }]],
    ["world-destroyed", []],
  ]);
});

it("with perAgent, agents and sequences are counted for the world that was joined", async () => {
  const alone = defineEnvironment({
    name: "alone",
    actions: { go: t.int32() },
    observations: { at: t.int32() },
    create: () => ({
      reset: () => ({ at: 0 }),
      step: () => ({ observation: { at: 1 }, state: "terminated" }),
    }),
  });
  await using server = createEnvironmentServer({ worlds: [alone] });
  const name = await connectPeer(server).createWorld();
  const [one, two] = (await joinedPeers(server, name, 2)) as [Peer, Peer];
  for (let step = 0; step < 3; step++) {
    await one.step();
  }
  await two.step();
  await one.leave();
  expect(server.worlds()).toEqual([
    { name, type: "alone", agents: 1, joins: 2, sequences: 3, premade: false },
  ]);
});
