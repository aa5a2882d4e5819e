// SPDX-License-Identifier: Apache-2.0
import { manualTime } from "@dm-env-rpc/transport/internal";
import { describe, expect, it } from "vitest";
import { connectPeer, isBlocked, type Peer, quiet } from "../../testing/peer.ts";
import { type TallyEvent, type TallyOptions, tally } from "../../testing/tally.ts";
import { freeRunning } from "../clocks/free-running.ts";
import { lockstep } from "../clocks/lockstep.ts";
import { realtime } from "../clocks/realtime.ts";
import { turns } from "../clocks/turns.ts";
import { wakeUp } from "../clocks/wake-up.ts";
import { checkDefinitions } from "../definition/definition-checks.ts";
import type { UntypedWorld, UntypedWorldDefinition } from "../definition/world.ts";
import { createEnvironmentServer } from "../host/environment-server.ts";
import type { TakenSeat } from "../session/seat-tokens.ts";

const keys = ["the-first-agents-key", "the-second-agents-key"] as const;

/** Returns two agents in a sequence, each with a key. */
async function setUp(options: TallyOptions, settings = {}) {
  const log: TallyEvent[] = [];
  const time = manualTime();
  const server = createEnvironmentServer({ worlds: [tally({ log, ...options })], time });
  const host = connectPeer(server);
  const world = await host.createWorld({ length: 100, ...settings });
  const [one, two] = [connectPeer(server), connectPeer(server)];
  await one.join(world, { seat_key: keys[0] });
  await two.join(world, { seat_key: keys[1] });
  await Promise.all([one.step(), two.step()]);
  const back = async (): Promise<Peer> => {
    const peer = connectPeer(server);
    await peer.join(world, { seat_key: keys[0] });
    return peer;
  };
  return { log, time, server, host, world, one, two, back };
}

/** Two agents on the clock `turns`: it is the first one's turn, and the second one waits. */
async function setUpTurns() {
  const log: TallyEvent[] = [];
  const worlds = [tally({ log, clock: turns(), onDrop: block })];
  const server = createEnvironmentServer({ worlds, time: manualTime() });
  const world = await connectPeer(server).createWorld({ length: 100 });
  const [one, other] = [connectPeer(server), connectPeer(server)];
  await one.join(world, { seat_key: keys[0] });
  await other.join(world);
  const first = one.step();
  const two = other.step();
  await first;
  const back = async (): Promise<Peer> => {
    const peer = connectPeer(server);
    await peer.join(world, { seat_key: keys[0] });
    return peer;
  };
  return { log, one, two, back };
}

const block = { holdMs: 5_000, policy: "block" } as const;
const go = { holdMs: 5_000 } as const;

describe("behaviour 77: an agent whose stream is lost", () => {
  it.each([
    ["lockstep", lockstep()],
    ["freeRunning", freeRunning()],
  ])("resumes its seat, and the world that waited continues, on the clock %s", async (_, clock) => {
    const { log, one, two, back } = await setUp({ clock, onDrop: block });
    await Promise.all([one.step({ add: 1 }), two.step({ add: 2 })]);
    one.drop();
    await quiet();
    const waiting = two.step({ add: 4 });
    expect(await isBlocked(waiting)).toBe(true);
    const again = await back();
    const first = await again.step({ add: 100 });
    // It receives the current observations; its actions are those of a first step, which are
    // ignored.
    expect(first.state).toBe("RUNNING");
    expect(first.observations["row"]).toEqual([1, 1]);
    await again.step({ add: 8 });
    expect((await waiting).state).toBe("RUNNING");
    await quiet();
    expect(log.filter((event) => /^(join|leave|start|enter|exit)/.test(event))).toEqual([
      "join 1",
      "join 2",
      "start 1,2",
    ]);
    const added = log.filter((event) => event.startsWith("tick")).join(" ");
    expect(added).not.toContain("100");
    expect(added).toMatch(/1:8/);
    expect(added).toMatch(/2:4/);
  });

  it("keeps the steps of others waiting when another one leaves, on the clock freeRunning", async () => {
    const { server, world, one, two, back } = await setUp({ clock: freeRunning(), onDrop: block });
    const third = connectPeer(server);
    await third.join(world);
    await third.step();
    one.drop();
    await quiet();
    const waiting = two.step({ add: 4 });
    await third.leave();
    expect(await isBlocked(waiting)).toBe(true);
    await (await back()).step();
    expect((await waiting).observations["total"]).toBe(4);
  });

  it("returns to its turn, and agents that wait for their turns keep waiting", async () => {
    const { log, one, two, back } = await setUpTurns();
    one.drop();
    await quiet();
    const again = await back();
    expect((await again.step()).state).toBe("RUNNING");
    const moved = again.step({ add: 1 });
    expect((await two).observations["total"]).toBe(1);
    expect(await isBlocked(moved)).toBe(true);
    expect(log.slice(3)).toEqual(["start 1,2", "tick 1:1"]);
  });

  it("lets the others continue meanwhile, and enters their sequence when it is back", async () => {
    const { log, one, two, back } = await setUp({ onDrop: go });
    one.drop();
    await quiet();
    expect((await two.step({ add: 2 })).observations["total"]).toBe(2);
    const again = await back();
    expect((await again.step()).state).toBe("RUNNING");
    await Promise.all([again.step({ add: 1 }), two.step({ add: 3 })]);
    expect(log.slice(3)).toEqual(["start 1,2", "exit 1", "tick 2:2", "enter 1", "tick 1:1 2:3"]);
  });

  it("with the policy `continue`, the next sequence does not wait for it", async () => {
    const { one, two, back } = await setUp({ onDrop: go }, { length: 1 });
    one.drop();
    await quiet();
    expect((await two.step({ add: 2 })).state).toBe("TERMINATED");
    expect((await two.step()).state).toBe("RUNNING");
    expect((await two.step({ add: 2 })).state).toBe("TERMINATED");
    const again = await back();
    const first = two.step();
    expect(await isBlocked(first)).toBe(true);
    await again.step();
    expect((await first).state).toBe("RUNNING");
  });

  it("interrupts the sequence of the other agents if onLeave is terminate", async () => {
    const { one, two } = await setUp({ onDrop: { holdMs: 5_000, policy: "terminate" } });
    one.drop();
    await quiet();
    expect((await two.step()).state).toBe("INTERRUPTED");
    expect((await two.step()).state).toBe("RUNNING");
  });

  it("leaves if it is not back in time, and another agent can take its seat", async () => {
    const { log, time, one, two, server, world } = await setUp(
      { onDrop: block },
      { max_agents: 2 },
    );
    one.drop();
    await quiet();
    const waiting = two.step({ add: 1 });
    time.advance(4_999);
    expect(await isBlocked(waiting)).toBe(true);
    const other = connectPeer(server);
    await expect(other.join(world)).rejects.toThrow(/room for 2|full/);
    time.advance(1);
    expect((await waiting).state).toBe("RUNNING");
    expect(log).toContain("leave 1");
    await other.join(world);
    const late = connectPeer(server);
    await expect(late.join(world, { seat_key: keys[0] })).rejects.toThrow(/room for 2|full/);
  });

  it.each([
    ["lockstep", lockstep()],
    ["wakeUp", wakeUp({ action: "sleep" })],
  ])(
    "has its outstanding step withdrawn, without any effect, on the clock %s",
    async (_, clock) => {
      const { log, one, two, back } = await setUp({ clock, onDrop: block });
      void one.step({ add: 100 }).catch(() => {});
      await quiet();
      one.drop();
      await quiet();
      const again = await back();
      await again.step();
      const other = two.step({ add: 2 });
      expect(await isBlocked(other)).toBe(true);
      await Promise.all([again.step({ add: 1 }), other]);
      expect(log.filter((event) => event.startsWith("tick"))).toEqual(["tick 1:1 2:2"]);
    },
  );

  it("resumes its seat although the loss of the old connection is not known yet", async () => {
    const { log, one, two, back } = await setUp({ onDrop: block });
    const outstanding = one.step({ add: 100 });
    await quiet();
    const again = await back();
    await expect(outstanding).rejects.toThrow(/^10: another connection has resumed/);
    await expect(one.step()).rejects.toThrow(/another connection has resumed/);
    one.drop();
    await quiet();
    await again.step();
    await Promise.all([again.step({ add: 1 }), two.step({ add: 2 })]);
    expect(log).not.toContain("leave 1");
  });

  it("keeps its seat if its old connection ends before the world has processed the new join", async () => {
    const log: TallyEvent[] = [];
    const definition: UntypedWorldDefinition = tally({ log, onDrop: block });
    const step = { finish: (): void => {} };
    const pending = new Promise<void>((resolve) => {
      step.finish = resolve;
    });
    const slow: UntypedWorldDefinition = {
      ...definition,
      create: async (context) => {
        const world: UntypedWorld = await definition.create(context);
        return { ...world, step: (actions) => pending.then(() => world.step(actions)) };
      },
    };
    const server = createEnvironmentServer({ worlds: [slow], time: manualTime() });
    const world = await connectPeer(server).createWorld({ length: 100 });
    const [one, two, again] = [connectPeer(server), connectPeer(server), connectPeer(server)];
    await one.join(world, { seat_key: keys[0] });
    await two.join(world, { seat_key: keys[1] });
    await Promise.all([one.step(), two.step()]);
    void one.step({ add: 1 });
    const stepped = two.step({ add: 2 });
    await quiet();
    const joined = again.join(world, { seat_key: keys[0] });
    await quiet();
    one.drop();
    await quiet();
    step.finish();
    await Promise.all([joined, stepped]);
    await again.step();
    await Promise.all([again.step({ add: 4 }), two.step({ add: 8 })]);
    expect(log.slice(4)).toEqual(["tick 1:1 2:2", "tick 1:4 2:8"]);
    await again.leave();
    expect(log.filter((event) => event.startsWith("leave"))).toEqual(["leave 1"]);
  });

  it("keeps its seat if the new stream is lost, too, before the world has processed its join", async () => {
    const log: TallyEvent[] = [];
    const definition: UntypedWorldDefinition = tally({ log, onDrop: block });
    let finish = (): void => {};
    const pending = new Promise<void>((resolve) => {
      finish = resolve;
    });
    const slow: UntypedWorldDefinition = {
      ...definition,
      create: async (context) => {
        const world: UntypedWorld = await definition.create(context);
        return { ...world, step: (actions) => pending.then(() => world.step(actions)) };
      },
    };
    const calls: string[] = [];
    const joinToken = (token = ""): TakenSeat => ({
      key: token,
      hold: () => calls.push("hold"),
      leave: () => calls.push("leave"),
      giveBack: () => calls.push("back"),
    });
    const server = createEnvironmentServer({ worlds: [slow], joinToken, time: manualTime() });
    const world = await connectPeer(server).createWorld({ length: 100 });
    const [one, two, lost, again] = [1, 2, 3, 4].map(() => connectPeer(server)) as [
      Peer,
      Peer,
      Peer,
      Peer,
    ];
    await one.join(world, { join_token: keys[0] });
    await two.join(world, { join_token: keys[1] });
    await Promise.all([one.step(), two.step()]);
    const stepped = [one.step({ add: 1 }), two.step({ add: 2 })];
    await quiet();
    void lost.join(world, { join_token: keys[0] }); // Never answered, because its stream is lost.
    await quiet();
    lost.drop();
    await quiet();
    finish();
    await Promise.allSettled(stepped);
    await quiet();
    // The first stream no longer has the seat, and the second one's is held.
    expect(calls).toEqual(["leave", "hold"]);
    await again.join(world, { join_token: keys[0] });
    await again.step();
    await Promise.all([again.step({ add: 4 }), two.step({ add: 8 })]);
    expect(log.at(-1)).toBe("tick 1:4 2:8");
  });

  it("resumes its seat before the reset of the world that waited for it is over", async () => {
    const { two, server, host, world } = await setUp({ onDrop: block });
    const again = connectPeer(server);
    const answered: string[] = [];
    const reset = host.resetWorld(world).then(() => answered.push("reset"));
    await two.step();
    const joined = again.join(world, { seat_key: keys[0] }).then(() => answered.push("join"));
    await Promise.all([reset, joined]);
    expect(answered).toEqual(["join", "reset"]);
  });

  it("leaves at once if it has no key, ended its stream cleanly, or is in a world without onDrop", async () => {
    const { log, server, world, one, two } = await setUp({ onDrop: block });
    const keyless = connectPeer(server);
    await keyless.join(world);
    keyless.drop();
    one.stream.end();
    await quiet();
    expect(log).toEqual(expect.arrayContaining(["leave 3", "leave 1"]));
    expect((await two.step()).state).toBe("RUNNING");
    const plain = await setUp({});
    plain.one.drop();
    await quiet();
    expect(plain.log).toContain("leave 1");
  });

  it("leaves when the server closes or the world is destroyed", async () => {
    const { log, one, two, server } = await setUp({ onDrop: block });
    one.drop();
    await quiet();
    const closing = server.close({ graceMs: 1_000 });
    expect((await two.step()).state).toBe("INTERRUPTED");
    await closing;
    expect(log).toEqual(expect.arrayContaining(["leave 1"]));
    const forced = await setUp({ onDrop: block, onDestroy: "force" });
    const before = forced.time.timers;
    forced.one.drop();
    await quiet();
    expect(forced.time.timers).toBe(before + 1);
    await forced.host.destroyWorld(forced.world);
    expect(forced.time.timers).toBe(before);
  });

  it("resumes its seat in a real-time world that waited for it", async () => {
    const clock = realtime({ ticksPerSecond: 10 });
    const { log, time, one, two, back } = await setUp({ clock, onDrop: block });
    one.drop();
    await quiet();
    time.advance(1_000);
    await quiet();
    expect(log.filter((event) => event.startsWith("tick"))).toEqual([]);
    const again = await back();
    expect((await again.step()).state).toBe("RUNNING");
    const acted = [again.step({ add: 1 }), two.step({ add: 2 })];
    await quiet();
    time.advance(200);
    await Promise.all(acted);
    expect(log.at(-1)).toMatch(/^tick 1:1 2:2/);
  });
});

it("behaviour 77: the seat of a join token is held, and the same token resumes it", async () => {
  const log: string[] = [];
  const taken = new Map<string, "taken" | "held">();
  const joinToken = (token = ""): TakenSeat => {
    if (taken.get(token) === "taken") {
      throw new Error("the seat has been taken");
    }
    taken.set(token, "taken");
    log.push("take");
    return {
      key: token,
      hold: () => {
        taken.set(token, "held");
        log.push("hold");
      },
      leave: () => log.push("leave"),
      giveBack: () => log.push("back"),
    };
  };
  const time = manualTime();
  const events: TallyEvent[] = [];
  const server = createEnvironmentServer({
    worlds: [tally({ log: events, onDrop: block })],
    joinToken,
    time,
  });
  const world = await connectPeer(server).createWorld();
  const join = async (): Promise<Peer> => {
    const peer = connectPeer(server);
    await peer.join(world, { join_token: "abc" });
    return peer;
  };
  const one = await join();
  await expect(join()).rejects.toThrow();
  one.drop();
  await quiet();
  const again = await join();
  again.drop();
  await quiet();
  time.advance(5_000);
  await quiet();
  expect(log).toEqual(["take", "hold", "take", "hold", "leave"]);
  expect(events).toEqual(["create 3", "join 1", "leave 1"]);
});

it("behaviour 77: with perAgent, the world of an agent is held for it", async () => {
  const log: TallyEvent[] = [];
  const worlds = [tally({ log, onDrop: block, perAgent: true })];
  const server = createEnvironmentServer({ worlds, time: manualTime() });
  const world = await connectPeer(server).createWorld({ length: 100 });
  const join = async (): Promise<Peer> => {
    const peer = connectPeer(server);
    await peer.join(world, { seat_key: keys[0] });
    return peer;
  };
  const one = await join();
  await one.step();
  await one.step({ add: 5 });
  one.drop();
  await quiet();
  const again = await join();
  expect((await again.step()).observations["total"]).toBe(5);
  expect(log.filter((event) => event.startsWith("join"))).toEqual(["join 1"]);
});

it.each([
  ["short", /expected 16 to 200 characters that cannot be guessed, received 5/],
  ["x".repeat(201), /received 201/],
])("a seat_key cannot be %s", async (key, message) => {
  const server = createEnvironmentServer({ worlds: [tally()] });
  const peer = connectPeer(server);
  await expect(peer.join(await peer.createWorld(), { seat_key: key })).rejects.toThrow(message);
});

it("a definition with an onDrop.holdMs of 0 is refused", () => {
  expect(() => checkDefinitions([tally({ onDrop: { holdMs: 0 } })])).toThrow(
    /expected onDrop.holdMs above 0, received 0/,
  );
});
