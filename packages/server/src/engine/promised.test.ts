// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError, t } from "@dm-env-rpc/tensor-codec";
import { manualTime } from "@dm-env-rpc/transport/internal";
import { describe, expect, it, onTestFinished } from "vitest";
import { connectPeer, joinedPeers, type Peer, quiet } from "../../testing/peer.ts";
import { lockstep } from "../clocks/lockstep.ts";
import { turns } from "../clocks/turns.ts";
import type { Clock } from "../definition/clock.ts";
import { defineWorld } from "../definition/world.ts";
import { createEnvironmentServer } from "../host/environment-server.ts";
import type { ServerEvent } from "../host/events.ts";

const broken = (): Promise<never> => Promise.reject(new Error("the engine is gone"));

/** A world with a synchronous function that returns a promise. */
async function setUp(functions: object, clock: Clock = lockstep()) {
  const rejections: unknown[] = [];
  const onRejection = (reason: unknown): unknown => rejections.push(reason);
  process.on("unhandledRejection", onRejection);
  onTestFinished(() => {
    process.off("unhandledRejection", onRejection);
  });
  const events: ServerEvent[] = [];
  const hasty = defineWorld({
    name: "hasty",
    actions: {},
    observations: { seen: t.int32() },
    onDestroy: "force",
    clock,
    create: () => Object.assign({ step() {}, observe: { seen: () => 1 } }, functions),
  });
  const server = createEnvironmentServer({
    worlds: [hasty],
    onEvent: (event) => void events.push(event),
  });
  const host = connectPeer(server);
  const world = await host.createWorld();
  const [one, two] = (await joinedPeers(server, world, 2)) as [Peer, Peer];
  const faults = (): readonly string[] =>
    events.flatMap((event) => (event.kind === "world-failed" ? [event.error.message] : []));
  return { server, host, world, one, two, faults, rejections };
}

const play = async (one: Peer, two: Peer): Promise<void> => {
  await Promise.all([one.step(), two.step()]);
  await one.reset();
  await one.step();
  await Promise.all([one.step(), two.step()]);
  await one.leave();
  await two.step();
};

describe("behaviour 24: a synchronous function of a world", () => {
  it.each(["leave", "enter", "exit", "status", "affected"])(
    "%s: returning a promise ends this world only, without an unhandled rejection",
    async (name) => {
      const { server, one, two, faults, rejections } = await setUp({ [name]: broken });
      const other = connectPeer(server);
      await other.join(await other.createWorld());
      await expect(play(one, two)).rejects.toThrow(new RegExp(`^13: .*"${name}" failed.*promise`));
      await quiet();
      expect(faults()[0]).toMatch(
        /"hasty-1" failed.*expected a synchronous function, received a promise/,
      );
      expect(rejections).toEqual([]);
    },
  );

  it("turn: returning a promise also ends the world", async () => {
    const { one, two, faults } = await setUp({ turn: broken }, turns());
    const begun = [one.step(), two.step()];
    await Promise.all(begun.map((step) => expect(step).rejects.toThrow(/^13: .*"turn" failed/)));
    expect(faults()[0]).toMatch(/expected a synchronous function, received a promise/);
  });

  it("observe: returning a promise ends this world only, without an unhandled rejection", async () => {
    const { one, two, rejections } = await setUp({ observe: { seen: broken } });
    await expect(play(one, two)).rejects.toThrow(/^13: .*"observe.seen" failed.*promise/);
    await quiet();
    expect(rejections).toEqual([]);
  });

  it("start: any error, even a DmEnvRpcError, fails the world and names `start`", async () => {
    const start = () => Promise.reject(new DmEnvRpcError("UNAVAILABLE", "no map is free"));
    const { one, two, faults } = await setUp({ start });
    const begun = [one.step(), two.step()];
    await Promise.all(begun.map((step) => expect(step).rejects.toThrow(/^13: .*"start" failed/)));
    expect(faults()).toEqual([expect.stringMatching(/"start" failed: no map is free/)]);
  });

  it("destroy: may return a promise, and its error is reported to the operator", async () => {
    const { host, world, faults, rejections } = await setUp({ destroy: broken });
    await host.destroyWorld(world);
    await quiet();
    expect(faults()).toEqual([expect.stringMatching(/"destroy" failed: the engine is gone/)]);
    expect(rejections).toEqual([]);
  });
});

it("behaviour 24: a promise that settles after its limit changes nothing", async () => {
  let join = (): void => {};
  const world = defineWorld({
    name: "late",
    actions: {},
    observations: {},
    create: () => ({
      join: () =>
        new Promise<void>((resolve) => {
          join = resolve;
        }),
      step() {},
      observe: {},
    }),
  });
  const events: ServerEvent[] = [];
  const time = manualTime();
  const onEvent = (event: ServerEvent): void => void events.push(event);
  const limits = { joinMs: 100, idleStreamMs: 0 };
  const server = createEnvironmentServer({ worlds: [world], time, limits, onEvent });
  const peer = connectPeer(server);
  const joined = peer.join(await peer.createWorld());
  await quiet();
  time.advance(100);
  await expect(joined).rejects.toThrow(/^4: .*"join" failed.*100 ms/);
  const before = events.length;
  join();
  await quiet();
  expect(events.slice(before)).toEqual([]);
});
