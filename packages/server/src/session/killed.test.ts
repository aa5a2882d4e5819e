// SPDX-License-Identifier: Apache-2.0
import { connect } from "node:net";
import { describe, expect, it } from "vitest";
import { networkPeer, serving, until } from "../../testing/network.ts";
import { type Peer, quiet } from "../../testing/peer.ts";
import { type Line, lineTo } from "../../testing/severed-line.ts";
import { type TallyEvent, tally } from "../../testing/tally.ts";

/** An agent that will be killed, and two that survive. */
interface Scene {
  readonly victim: Peer;
  readonly line: Line;
  readonly world: string;
  readonly one: Peer;
  readonly two: Peer;
}

/** Lets a victim's request reach the server without waiting for the response. */
async function asks(line: Line, request: () => Promise<unknown>): Promise<void> {
  const before = line.sentBytes;
  request().catch(() => {});
  await until(() => line.sentBytes > before);
  await quiet();
}

async function everybodyBegins({ victim, world, one, two }: Scene): Promise<void> {
  await victim.join(world);
  await Promise.all([victim.step(), one.step(), two.step()]);
}

/** Actions of an agent up to its death; the returned requests of the others must be answered. */
type Death = (scene: Scene) => Promise<readonly Promise<unknown>[]>;

const deaths: Readonly<Record<string, Death>> = {
  "before it asks anything": async () => [],
  "while it joins": async ({ victim, line, world }) => {
    await asks(line, () => victim.join(world));
    return [];
  },
  "when it has joined and not stepped yet": async ({ victim, world, one, two }) => {
    await victim.join(world);
    return [one.step(), two.step()];
  },
  "in the barrier of the first steps": async ({ victim, line, world, one, two }) => {
    await victim.join(world);
    const first = one.step();
    await asks(line, () => victim.step());
    return [first, two.step()];
  },
  "between two steps": async (scene) => {
    await everybodyBegins(scene);
    return [scene.one.step({ add: 1 }), scene.two.step({ add: 1 })];
  },
  "with its step outstanding": async (scene) => {
    await everybodyBegins(scene);
    await asks(scene.line, () => scene.victim.step({ add: 1 }));
    return [scene.one.step({ add: 1 }), scene.two.step({ add: 1 })];
  },
  "with many steps queued": async (scene) => {
    await everybodyBegins(scene);
    await asks(scene.line, () =>
      Promise.all(Array.from({ length: 100 }, () => scene.victim.step({ add: 1 }))),
    );
    return [scene.one.step({ add: 1 }), scene.two.step({ add: 1 })];
  },
  "in the middle of a frame": async (scene) => {
    await everybodyBegins(scene);
    scene.line.cutAfter(12);
    await asks(scene.line, () => scene.victim.step({ add: 1 }));
    return [scene.one.step({ add: 1 }), scene.two.step({ add: 1 })];
  },
  "while the world waits to tell it of a reset": async (scene) => {
    await everybodyBegins(scene);
    const reset = scene.one.resetWorld(scene.world);
    const told = scene.two.step();
    await told;
    return [reset];
  },
  "while it resets the world": async (scene) => {
    await everybodyBegins(scene);
    await asks(scene.line, () => scene.victim.resetWorld(scene.world));
    return [scene.one.step(), scene.two.step()];
  },
  "while its own reset waits": async (scene) => {
    await everybodyBegins(scene);
    await asks(scene.line, () => scene.victim.reset());
    return [scene.one.step({ add: 1 }), scene.two.step({ add: 1 })];
  },
};

describe("behaviour 8: an agent whose machine dies stops no other agent", () => {
  it.each(Object.keys(deaths))("%s", async (when) => {
    const log: TallyEvent[] = [];
    await using server = await serving({ worlds: [tally({ log, onReset: "wait" })] });
    await using line = await lineTo(server.port);
    await using one = await networkPeer(server);
    await using two = await networkPeer(server);
    await using victim = await networkPeer(line);
    const world = await one.createWorld({ length: 1000 });
    await one.join(world);
    await two.join(world);
    const outstanding = await deaths[when]?.({ victim, line, world, one, two });
    await quiet();
    line.cut();
    await Promise.all(outstanding ?? []);
    for (let round = 0; round < 3; round++) {
      await Promise.all([one.step(), two.step()]);
    }
    await until(() => server.sessionCount === 2);
    expect(log.filter((event) => event === "leave 3")).toHaveLength(log.includes("join 3") ? 1 : 0);
  });

  it("while it connects, at whatever byte", async () => {
    await using server = await serving({ worlds: [tally()] });
    await using one = await networkPeer(server);
    await one.join(await one.createWorld({ length: 1000 }));
    await one.step();
    for (const bytes of [0, 1, 10, 24, 33, 50, 80, 120]) {
      await using line = await lineTo(server.port);
      line.cutAfter(bytes);
      if (bytes === 0) {
        connect(Number(new URL(line.url).port)).on("error", () => {});
      } else {
        const dying = networkPeer(line, { connectTimeoutMs: 5000 });
        await dying.then(
          (peer) => peer.closed,
          () => {},
        );
      }
      expect((await one.step({ add: 1 })).state).toBe("RUNNING");
    }
    await until(() => server.sessionCount === 1);
  });
});
