// SPDX-License-Identifier: Apache-2.0
import { create as createMessage } from "@bufbuild/protobuf";
import { ReadPropertyRequestSchema, WritePropertyRequestSchema } from "@dm-env-rpc/protocol";
import { DmEnvRpcError, pack, t } from "@dm-env-rpc/tensor-codec";
import { packTensor } from "@dm-env-rpc/tensor-codec/proto";
import { manualTime } from "@dm-env-rpc/transport/internal";
import { describe, expect, it } from "vitest";
import { connectPeer, isBlocked, joinedPeers, type Peer, quiet } from "../../testing/peer.ts";
import { tally } from "../../testing/tally.ts";
import { freeRunning } from "../clocks/free-running.ts";
import type { AgentId } from "../definition/agent.ts";
import { property } from "../definition/property.ts";
import { optional } from "../definition/settings.ts";
import { defineWorld } from "../definition/world.ts";
import { createEnvironmentServer } from "../host/environment-server.ts";
import type { ServerLimits } from "../host/limits.ts";

/** A world that shows its last call; an agent that goes up ends the sequences of some agents. */
function heard(
  hooks: { readonly enter?: (agent: AgentId) => void } = {},
  ended = [1, 2] as AgentId[],
) {
  return defineWorld({
    name: "heard",
    clock: freeRunning(),
    actions: { up: t.bool() },
    observations: { last: t.string() },
    resetSettings: { size: optional(t.int32()) },
    create() {
      let last = "nothing";
      const over = new Set<AgentId>();
      return {
        join: (agent) => {
          last = `join ${agent}`;
        },
        leave: (agent) => {
          last = `leave ${agent}`;
        },
        enter: (agent) => {
          last = `enter ${agent}`;
        },
        exit: (agent) => {
          last = `exit ${agent}`;
        },
        reset: (agent) => {
          last = `reset ${agent}`;
        },
        step: (actions) => {
          for (const [agent, { up }] of actions) {
            last = `step ${agent}`;
            if (up === true) {
              for (const other of ended) {
                over.add(other);
              }
            }
          }
        },
        status: (agent) => (over.has(agent) ? "terminated" : "running"),
        observe: { last: () => last },
        properties: {
          last: property(t.string(), {
            read: () => last,
            write: (value) => {
              last = value;
            },
          }),
        },
        ...hooks,
      };
    },
  });
}

async function playing(world = heard(), limits: Partial<ServerLimits> = {}) {
  const server = createEnvironmentServer({ worlds: [world], limits });
  const host = connectPeer(server);
  const name = await host.createWorld();
  const [one, two, three] = (await joinedPeers(server, name, 3)) as [Peer, Peer, Peer];
  await Promise.all([one.step(), two.step(), three.step()]);
  return { server, host, name, one, two, three };
}

async function write(peer: Peer, name: string, value: string): Promise<void> {
  const properties = { [name]: packTensor(pack(value)) };
  const request = createMessage(WritePropertyRequestSchema, { properties });
  const answer = await peer.send({ case: "writeProperty", value: request });
  expect(answer.case).toBe("writeProperty");
}

const readLast: Parameters<Peer["send"]>[0] = {
  case: "readProperty",
  value: createMessage(ReadPropertyRequestSchema, { keys: ["last"] }),
};

describe("behaviour 61: an undelivered end shows the world at the time of the end", () => {
  it.each<[string, (scene: Awaited<ReturnType<typeof playing>>) => Promise<unknown>]>([
    ["joins", ({ server, name }) => joinedPeers(server, name, 1)],
    ["leaves", ({ one }) => one.leave()],
    ["enters", ({ one }) => one.step()],
    ["steps", ({ three }) => three.step()],
    ["is reset", ({ three }) => three.reset()],
    ["changes its settings", ({ one }) => one.reset({ size: 3 })],
    ["writes a property", ({ three }) => write(three, "last", "written")],
  ])("although another agent %s meanwhile", async (_what, change) => {
    const scene = await playing();
    const { one, two } = scene;
    expect((await one.step({ up: true })).state).toBe("TERMINATED");
    await change(scene);
    expect(await two.step()).toEqual({ state: "TERMINATED", observations: { last: "step 1" } });
  });

  it("although another agent writes a property before the ends of 20 agents are saved", async () => {
    const everyone = Array.from({ length: 23 }, (_, i) => (i + 1) as AgentId);
    const { server, name, one, two, three } = await playing(heard({}, everyone));
    const others = await joinedPeers(server, name, 20);
    await Promise.all(others.map((peer) => peer.step()));
    expect((await one.step({ up: true })).state).toBe("TERMINATED");
    await write(three, "last", "written");
    for (const peer of [two, three, ...others]) {
      expect(await peer.step()).toEqual({
        state: "TERMINATED",
        observations: { last: "step 1" },
      });
    }
  });

  it("is not saved by a read of a property", async () => {
    const scene = await playing(heard(), { maxUndeliveredEndBytes: 10 });
    const { one, two, three } = scene;
    expect((await one.step({ up: true })).state).toBe("TERMINATED");
    expect((await three.send(readLast)).case).toBe("readProperty");
    expect(scene.server.counts().refusals.get("maxUndeliveredEndBytes")).toBeUndefined();
    expect(await two.step()).toEqual({ state: "TERMINATED", observations: { last: "step 1" } });
  });

  it("is answered with an error if its observations took too much memory, and the next step begins a sequence", async () => {
    const scene = await playing(heard(), { maxUndeliveredEndBytes: 10 });
    const { one, two, three } = scene;
    await one.step({ up: true });
    await three.step();
    await expect(two.step()).rejects.toThrow(
      /^8: .*"last" .*was dropped: .*\(limit: maxUndeliveredEndBytes\)/,
    );
    expect(scene.server.counts().refusals.get("maxUndeliveredEndBytes")).toBe(1);
    expect((await two.step()).state).toBe("RUNNING");
  });
});

describe("behaviour 62: a late joiner", () => {
  it("may be refused by the world, and may try again", async () => {
    let isOpen = false;
    const world = heard({
      enter: () => {
        if (!isOpen) {
          throw new DmEnvRpcError("FAILED_PRECONDITION", "the gate is shut");
        }
      },
    });
    const { server, name, one } = await playing(world);
    const [late] = (await joinedPeers(server, name, 1)) as [Peer];
    await expect(late.step()).rejects.toThrow(/^9: the gate is shut/);
    expect((await one.step()).state).toBe("RUNNING");
    await expect(late.step()).rejects.toThrow(/^9: the gate is shut/);
    isOpen = true;
    expect((await late.step()).state).toBe("RUNNING");
    await late.leave();
    expect((await one.step()).state).toBe("RUNNING");
  });
});

describe("behaviour 21: a world whose create refuses", () => {
  it("does not exist, and another can be created", async () => {
    let isOpen = false;
    const world = defineWorld({
      name: "closed",
      actions: {},
      observations: {},
      create: async () => {
        if (!isOpen) {
          throw new DmEnvRpcError("UNAVAILABLE", "no licence is free");
        }
        return { step() {}, observe: {} };
      },
    });
    const server = createEnvironmentServer({ worlds: [world] });
    const host = connectPeer(server);
    await expect(host.createWorld()).rejects.toThrow(/^14: no licence is free/);
    expect(server.worldNames()).toEqual([]);
    isOpen = true;
    expect(await host.createWorld()).not.toBe("");
  });
});

describe("behaviour 17: an observation without a function", () => {
  it("fails the join instead of the first step that requests it", async () => {
    const world = defineWorld({
      name: "blind",
      actions: {},
      observations: ({ join }: { join: object }) => ({ seen: t.int32(), ...join }),
      create: () => ({ step() {}, observe: {} as { seen: () => number } }),
    });
    const server = createEnvironmentServer({ worlds: [world] });
    const host = connectPeer(server);
    const outcome = host.createWorld().then((name) => connectPeer(server).join(name));
    await expect(outcome).rejects.toThrow(/^13: .*"seen" but its "observe" has no function/);
  });
});

describe("behaviour 30: a world that is drained", () => {
  it("is destroyed at its deadline, even with agents in it", async () => {
    const time = manualTime();
    const worlds = [tally({ onDestroy: "drain", drainDeadlineMs: 1_000 })];
    const server = createEnvironmentServer({ worlds, time });
    const host = connectPeer(server);
    const world = await host.createWorld();
    const [one] = (await joinedPeers(server, world, 1)) as [Peer];
    const destroyed = [host.destroyWorld(world), connectPeer(server).destroyWorld(world)];
    await quiet();
    time.advance(999);
    expect(await isBlocked(Promise.race(destroyed))).toBe(true);
    time.advance(1);
    await Promise.all(destroyed);
    await expect(one.step()).rejects.toThrow(/destroyed/);
  });

  it("is destroyed when its last agent leaves, also from a step that waits for another", async () => {
    const server = createEnvironmentServer({ worlds: [tally({ onDestroy: "drain" })] });
    const host = connectPeer(server);
    const world = await host.createWorld({ min_agents: 2 });
    const [one] = (await joinedPeers(server, world, 1)) as [Peer];
    const waiting = one.step();
    const destroyed = host.destroyWorld(world);
    await quiet();
    const left = one.leave();
    await expect(waiting).rejects.toThrow(/^1: this agent left while its request waited/);
    await left;
    await destroyed;
    expect(server.worldNames()).toEqual([]);
  });
});
