// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { ListPropertyRequestSchema } from "@dm-env-rpc/protocol";
import { t } from "@dm-env-rpc/tensor-codec";
import { describe, expect, it } from "vitest";
import { connectPeer, type Peer } from "../../testing/peer.ts";
import { createEnvironmentServer } from "../host/environment-server.ts";
import { defineEnvironment } from "./environment.ts";
import { optional, withDefault } from "./settings.ts";
import { defineWorld, type UntypedWorldDefinition } from "./world.ts";

/** A die that agents share; its author uses the source of `create` and declares no seed. */
const die = defineWorld({
  name: "die",
  actions: {},
  observations: { face: t.int32() },
  create({ random }) {
    let face = 0;
    const roll = () => {
      face = random.integer(0, 1_000_000);
    };
    return { start: roll, step: roll, observe: { face: () => face } };
  },
});

/** The same die, with an instance for each agent. */
const ownDie = defineEnvironment({
  name: "own-die",
  actions: {},
  observations: { face: t.int32() },
  create({ random }) {
    const roll = () => ({ face: random.integer(0, 1_000_000) });
    return { reset: roll, step: () => ({ observation: roll() }) };
  },
});

const serverOf = (...worlds: UntypedWorldDefinition[]) => createEnvironmentServer({ worlds });

/** Returns the first faces of an agent's next sequence. */
async function faces(peer: Peer): Promise<unknown[]> {
  const seen: unknown[] = [];
  for (let i = 0; i < 3; i++) {
    seen.push((await peer.step()).observations["face"]);
  }
  return seen;
}

describe("a seed that the author did not declare", () => {
  it("seeds a world at its create, and again at a reset of the world", async () => {
    const server = serverOf(die);
    const host = connectPeer(server);
    const seeded = async (seed: bigint) => {
      const world = await host.createWorld({ seed });
      const peer = connectPeer(server);
      await peer.join(world);
      return { world, peer, seen: await faces(peer) };
    };
    const first = await seeded(1n);
    expect((await seeded(1n)).seen).toEqual(first.seen);
    expect((await seeded(2n)).seen).not.toEqual(first.seen);
    await first.peer.resetWorld(first.world, { seed: 1n });
    expect(await faces(first.peer)).toEqual(first.seen);
    await first.peer.resetWorld(first.world);
    expect(await faces(first.peer)).not.toEqual(first.seen);
  });

  it("differs between worlds that are created without a seed", async () => {
    const server = serverOf(die);
    const seen = [];
    for (let i = 0; i < 3; i++) {
      const peer = connectPeer(server);
      await peer.join(await peer.createWorld());
      seen.push(String(await faces(peer)));
    }
    expect(new Set(seen).size).toBe(3);
  });

  it.each([
    ["join", (peer: Peer, world: string) => peer.join(world, { seed: 1n })],
    [
      "reset",
      async (peer: Peer, world: string) => {
        await peer.join(world);
        await peer.reset({ seed: 1n });
      },
    ],
  ])("is refused at a %s in a world whose agents share the random source", async (what, ask) => {
    const peer = connectPeer(serverOf(die));
    const world = await peer.createWorld();
    await expect(ask(peer, world)).rejects.toThrow(
      new RegExp(`^3: unknown ${what} setting "seed"; .*when it is created or reset as a whole`),
    );
  });

  it("seeds an agent's own environment at its join, regardless of earlier agents", async () => {
    const server = serverOf(ownDie);
    const world = await connectPeer(server).createWorld({ seed: 5n });
    const [one, other, another] = [1, 2, 3].map(() => connectPeer(server)) as [Peer, Peer, Peer];
    await one.join(world, { seed: 1n });
    const seen = await faces(one);
    await other.join(world);
    expect(await faces(other)).not.toEqual(seen);
    await another.join(world, { seed: 1n });
    expect(await faces(another)).toEqual(seen);
  });

  it("at an agent's reset, reseeds that agent's environment and no other", async () => {
    const server = serverOf(ownDie);
    const world = await connectPeer(server).createWorld({ seed: 5n });
    const [one, other, joined] = [1, 2, 3].map(() => connectPeer(server)) as [Peer, Peer, Peer];
    await one.join(world);
    await other.join(world);
    await other.step();
    await one.reset({ seed: 1n });
    const seen = await faces(one);
    await one.step();
    await one.reset({ seed: 1n });
    expect(await faces(one)).toEqual(seen);
    await one.reset();
    expect(await faces(one)).not.toEqual(seen);
    // A join with the same seed begins with the same faces, and does not affect the other agent.
    await joined.join(world, { seed: 1n });
    expect(await faces(joined)).toEqual(seen);
    expect((await other.step()).state).toBe("RUNNING");
  });

  it("at a reset of the world, gives each agent's environment its own seed", async () => {
    const server = serverOf(ownDie);
    const host = connectPeer(server);
    const world = await host.createWorld();
    const [one, two, late] = [1, 2, 3].map(() => connectPeer(server)) as [Peer, Peer, Peer];
    await one.join(world);
    await two.join(world);
    const play = async () => {
      await host.resetWorld(world, { seed: 1n });
      const seen = [await faces(one), await faces(two)];
      await Promise.all([one.reset(), two.reset()]);
      return seen;
    };
    const seen = await play();
    expect(seen[0]).not.toEqual(seen[1]);
    expect(await play()).toEqual(seen);
    await late.join(world);
    const lateSeen = await faces(late);
    await late.leave();
    expect(await play()).toEqual(seen);
    await late.join(world);
    expect(await faces(late)).toEqual(lateSeen);
  });

  it("is published with the settings that are declared", async () => {
    const peer = connectPeer(serverOf(die, ownDie));
    const published = async (key: string) => {
      const listed = await peer.send({
        case: "listProperty",
        value: create(ListPropertyRequestSchema, { keys: [key] }),
      });
      return listed.case === "listProperty" ? Object.keys(listed.value.properties) : [];
    };
    expect(await published("types.die.settings.create")).toContain(
      "types.die.settings.create.seed",
    );
    expect(await published("types.die.settings")).not.toContain("types.die.settings.join.seed");
    expect(await published("types.own-die.settings.reset")).toContain(
      "types.own-die.settings.reset.seed",
    );
  });

  it("is replaced by a setting `seed` that the author declares", async () => {
    const strict = defineEnvironment({
      name: "strict",
      settings: { seed: t.int32({ min: 1, max: 9 }), "map.name": optional(t.string()) },
      joinSettings: { "seed.of": optional(t.string()) },
      actions: {},
      observations: { face: t.int32() },
      create: ({ random, settings, joinSettings }) => ({
        reset: () => ({ face: random.integer(0, 100) + settings.seed }),
        step: () => ({ observation: { face: joinSettings["seed.of"] === undefined ? 0 : 1 } }),
      }),
    });
    const peer = connectPeer(serverOf(strict));
    await expect(peer.createWorld()).rejects.toThrow(/create setting "seed" is required/);
    await expect(peer.createWorld({ seed: 10 })).rejects.toThrow(/from 1 to 9/);
    const world = await peer.createWorld({ seed: 3 });
    await expect(peer.join(world, { seed: 1n })).rejects.toThrow(/unknown join setting "seed"/);
    await peer.join(world, { seed: { of: "me" } });
  });

  it("seeds nothing if the author declares `seed` with a non-integer dtype", async () => {
    const grain = defineWorld({
      name: "grain",
      settings: { seed: withDefault(t.float32(), 1.5) },
      actions: {},
      observations: { weight: t.float32() },
      create: ({ settings }) => ({ step() {}, observe: { weight: () => settings.seed } }),
    });
    const peer = connectPeer(serverOf(grain));
    await peer.join(await peer.createWorld());
    expect((await peer.step()).observations["weight"]).toBe(1.5);
  });
});

it("the settings of an agent's resets reach its environment, and apply to all later sequences", async () => {
  const seen: object[] = [];
  const maze = defineEnvironment({
    name: "maze",
    resetSettings: { size: optional(t.int32({ min: 1 })), map: optional(t.string()) },
    actions: {},
    observations: { size: t.int32() },
    create: () => {
      let size = 1;
      return {
        reset(settings) {
          seen.push(settings);
          size = settings.size ?? 1;
          return { size };
        },
        step: () => ({ observation: { size }, state: "terminated" }),
      };
    },
  });
  const peer = connectPeer(serverOf(maze));
  await peer.join(await peer.createWorld());
  await peer.step();
  await peer.reset({ size: 3, seed: 1n });
  expect((await peer.step()).observations["size"]).toBe(3);
  await peer.step();
  await peer.reset({ map: "castle" });
  await peer.step();
  await expect(peer.reset({ size: 0 })).rejects.toThrow(/^3: "size"/);
  expect(seen).toEqual([{}, { size: 3, seed: 1n }, { size: 3, map: "castle" }]);
});
