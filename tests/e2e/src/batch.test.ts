// SPDX-License-Identifier: Apache-2.0
import { connect, isRefusal, type VectorBatch } from "@dm-env-rpc/client";
import { remoteSlots, type VectorizeOptions, vectorize } from "@dm-env-rpc/client/vector";
import { defineEnvironment, defineWorld, type Server, serve } from "@dm-env-rpc/server";
import { type Tensor, t, tensor } from "@dm-env-rpc/tensor-codec";
import { describe, expect, it } from "vitest";

/** Ends after a random number of steps, terminated or interrupted; `bet` 13 throws. */
const dice = defineEnvironment({
  name: "dice",
  resetSettings: { offset: t.int32() },
  actions: { bet: t.int32({ min: 0, max: 20 }), hand: { cards: t.uint8([2]) } },
  observations: {
    face: t.int32(),
    table: { odds: t.float32([3]), open: t.bool() },
    name: t.string(),
  },
  create({ random }) {
    let left = 0;
    let offset = 0;
    const roll = () => ({
      face: random.integer(1, 6) + offset,
      table: { odds: [random.next(), 0, 1], open: random.next() < 0.5 },
      name: `${left}`,
    });
    return {
      reset(settings) {
        offset = settings.offset ?? 0;
        left = random.integer(1, 4);
        return roll();
      },
      step({ bet = 1, hand }) {
        if (bet === 13) {
          throw new Error("an accident");
        }
        left -= 1;
        const ended = random.next() < 0.5 ? "terminated" : "interrupted";
        const reward = bet + (hand?.cards?.data[1] ?? 0);
        return { observation: roll(), reward, state: left === 0 ? ended : "running" };
      },
    };
  },
});

const size = 4;
const modes = ["next-step", "same-step", "disabled"] as const;

async function joined(server: Server, options: object = {}) {
  const connection = await connect(server.url);
  const world = await connection.createWorld();
  return await connection.join(world, { as: dice, batch: size, seed: 3n, ...options });
}

/** Makes the same slots with a stream for each. */
async function streams(server: Server, options: VectorizeOptions = {}) {
  const slots = remoteSlots(server.url, {
    as: dice,
    joinSettings: ({ slot }) => ({
      seed: tensor("uint64", [], BigUint64Array.of(3n + BigInt(slot))),
    }),
  });
  return await vectorize(
    Array.from({ length: size }, () => slots),
    options,
  );
}

/** Converts a batch to plain values, without the meaningless parts of invalid rows. */
function plain(batch: VectorBatch<unknown, unknown>) {
  const { ids, observation, reward, discount, terminated, truncated, first, valid } = batch;
  const { timeSteps, finalObservation, finalInfo, failures } = batch;
  return structuredClone({
    ...{ ids, observation, reward, discount, terminated, truncated, first, valid },
    timeSteps: timeSteps.map((step) => step && { ...step, first: 0, mid: 0, last: 0 }),
    finalObservation,
    finalInfo,
    failures: failures.map((failure) => failure !== null),
  });
}

describe("connection.join with batch", () => {
  it.each(modes)(
    "behaviour 70: returns in mode %s the same as a stream for each slot",
    async (autoresetMode) => {
      await using server = await serve({ worlds: [dice] });
      await using batch = await joined(server, { autoresetMode });
      await using vector = await streams(server, { autoresetMode });
      expect(batch).toMatchObject({ size, batchSize: size, autoresetMode });
      const both = async (call: (one: typeof batch) => Promise<unknown>) => {
        const [mine, theirs] = await Promise.all([call(batch), call(vector as never)]);
        expect(plain(mine as never)).toEqual(plain(theirs as never));
        return theirs as Awaited<ReturnType<typeof batch.step>>;
      };
      let last = await both((one) => one.reset());
      for (let i = 0; i < 40; i++) {
        const ended = last.ids.map((slot) => last.finalInfo[slot] !== null);
        if (autoresetMode === "disabled" && ended.includes(true)) {
          last = await both((one) => one.reset({ mask: ended }));
        } else if (i % 10 === 9) {
          last = await both((one) => one.reset({ mask: [true, false, true, false] }));
          last = await both((one) => one.reset());
        } else if (i % 2 === 0) {
          const bet = Int32Array.from({ length: size }, (_, slot) => (i + slot) % 7);
          const cards = Uint8Array.from({ length: 2 * size }, (_, at) => at);
          last = await both((one) => one.step({ bet, hand: { cards } }));
        } else {
          last = await both((one) =>
            one.step(Array.from({ length: size }, (_, slot) => ({ bet: (i + slot) % 7 }))),
          );
        }
      }
    },
  );

  it("returns new arrays for each batch, or overwrites the arrays of the previous one", async () => {
    await using server = await serve({ worlds: [dice] });
    for (const buffers of ["fresh", "reuse"] as const) {
      await using batch = await joined(server, { buffers });
      await batch.reset();
      const before = await batch.step({ bet: Int32Array.of(1, 2, 3, 4) });
      const reward = before.reward.slice();
      expect([...reward]).toEqual([1, 2, 3, 4]);
      const after = await batch.step({ bet: Int32Array.of(5, 6, 7, 8) });
      expect(before.reward === after.reward).toBe(buffers === "reuse");
      expect(before.reward).toEqual(buffers === "reuse" ? after.reward : reward);
    }
  });

  it("resets all slots with settings and individual seeds", async () => {
    await using server = await serve({ worlds: [dice] });
    await using batch = await joined(server);
    const faces = ({ observation }: VectorBatch<unknown, { readonly face: Tensor }>) =>
      Array.from<unknown>(observation.face.data).map(Number);
    const begun = faces(await batch.reset());
    await batch.step({ bet: 1 });
    const seeded = await batch.reset({ settings: (slot) => ({ seed: 3n + BigInt(slot) }) });
    expect(faces(seeded)).toEqual(begun);
    const moved = await batch.reset({
      settings: (slot) => ({ seed: 3n + BigInt(slot), offset: 100 }),
    });
    expect(faces(moved)).toEqual(begun.map((face) => face + 100));
    await expect(batch.reset({ settings: (slot) => ({ offset: slot }) })).rejects.toThrow(
      /different settings/,
    );
  });

  it("refuses unsupported operations and invalid values", async () => {
    await using server = await serve({ worlds: [dice] });
    await using batch = await joined(server, { autoresetMode: "disabled" });
    await expect(batch.step({ bet: 1 })).rejects.toThrow(/before the first reset/);
    await batch.reset();
    const short = [{ bet: 1 }, { bet: 1 }];
    await expect(batch.step(short)).rejects.toThrow(/each of 4 slots/);
    const far = [{ bet: 1 }, { bet: 1 }, { bet: 21 }, { bet: 1 }];
    await expect(batch.step(far)).rejects.toThrow(/bet/);
    const uneven = [{ bet: 1 }, { bet: 1, hand: { cards: [1, 2] } }, { bet: 1 }, { bet: 1 }];
    await expect(batch.step(uneven)).rejects.toThrow(/slot 1 .*hand.cards/);
    await expect(batch.leave([1])).rejects.toThrow(/leave together/);
    expect(() => batch.send({ bet: 1 }, [1, 2])).toThrow(/stepped together/);
    const open = batch.step({ bet: 1 });
    await expect(batch.step({ bet: 1 })).rejects.toThrow(/a step is open/);
    await open;
    batch.sendReset();
    expect([...(await batch.recv()).first]).toEqual([1, 1, 1, 1]);
    batch.send({ bet: 2 });
    expect([...(await batch.recv()).reward]).toEqual([2, 2, 2, 2]);
    await expect(batch.recv()).rejects.toThrow(/nothing sent/);
    await batch.leave([0, 1, 2, 3]);
    await expect(batch.reset()).rejects.toThrow(/closed/);
  });

  it("behaviour 72: reports a failed slot", async () => {
    await using server = await serve({ worlds: [dice] });
    await using batch = await joined(server);
    await batch.reset();
    const { failures, truncated } = await batch.step({ bet: Int32Array.of(0, 13, 0, 0) });
    expect(failures[1]?.message).toMatch(/slot 1 failed/);
    expect(failures.filter((failure) => failure !== null)).toHaveLength(1);
    expect(truncated[1]).toBe(1);
    expect((await batch.step({ bet: 0 })).failures[1]).toBeNull();
  });

  it("interrupts every slot if another client resets the world", async () => {
    await using server = await serve({ worlds: [dice] });
    await using connection = await connect(server.url);
    const world = await connection.createWorld();
    await using batch = await connection.join(world, { as: dice, batch: size });
    await batch.reset();
    await using other = await connect(server.url);
    const reset = other.resetWorld(world);
    let interrupted = await batch.step({ bet: 0 });
    while (interrupted.truncated.includes(0)) {
      interrupted = await batch.step({ bet: 0 });
    }
    await reset;
    expect([...interrupted.reward]).toEqual([0, 0, 0, 0]);
    expect([...(await batch.step({ bet: 1 })).first]).toEqual([1, 1, 1, 1]);
  });

  it("is refused by a shared world", async () => {
    const shared = defineWorld({
      name: "shared",
      actions: {},
      observations: {},
      create: () => ({ step() {}, observe: {} }),
    });
    await using server = await serve({ worlds: [shared] });
    await using connection = await connect(server.url);
    const world = await connection.createWorld();
    const join = connection.join(world, { batch: 2 });
    await expect(join).rejects.toSatisfy((error) => isRefusal(error));
    await expect(join).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
    await expect(connection.join(world, { batch: 0 })).rejects.toThrow(/from 1 to/);
  });
});

describe("vectorize over remoteSlots", () => {
  const slots = (server: Server) =>
    remoteSlots(server.url, {
      as: dice,
      joinSettings: ({ seed }) => ({ seed: seed ?? 0n }),
    });

  it("joins one batch if the server supports it, and returns the same as a stream for each slot", async () => {
    await using server = await serve({ worlds: [dice] });
    const vector = await vectorize(size, slots(server), { seed: 3n });
    expect(server.sessionCount).toBe(1);
    await using others = await streams(server);
    expect(plain(await vector.reset())).toEqual(plain(await others.reset()));
    for (let i = 0; i < 10; i++) {
      const actions = Array.from({ length: size }, (_, slot) => ({ bet: (i + slot) % 7 }));
      expect(plain(await vector.step(actions))).toEqual(plain(await others.step(actions)));
    }
    await vector.close();
    await expect(vector.step({ bet: 1 })).rejects.toThrow(/closed/);
    await expect.poll(() => server.sessionCount).toBe(size);
    expect(server.worldNames()).toHaveLength(size);
  });

  it("opens a stream for each slot if the server has no batches, or if its batch lacks what was requested", async () => {
    const shared = defineWorld({
      name: "shared",
      actions: {},
      observations: {},
      create: () => ({ step() {}, observe: {} }),
    });
    await using server = await serve({ worlds: [dice, shared] });
    const sessions = async (factory: Parameters<typeof vectorize>[1], options = {}) => {
      await using vector = await vectorize(3, factory as never, options);
      await vector.reset();
      return server.sessionCount;
    };
    const own = (createSettings: () => object) =>
      remoteSlots(server.url, { createSettings: createSettings as never });
    expect(await sessions(own(() => ({ world_type: "dice" })) as never)).toBe(1);
    expect(await sessions(own(() => ({ world_type: "shared" })) as never)).toBe(3);
    expect(await sessions(own(() => ({ world_type: "dice", seed: 1n })) as never)).toBe(3);
    const dices = own(() => ({ world_type: "dice" })) as never;
    expect(await sessions(dices, { batch: false })).toBe(3);
    expect(await sessions(dices, { batchSize: 2 })).toBe(3);
  });

  it("creates a new batch after its server was lost", async () => {
    const first = await serve({ worlds: [dice] });
    await using vector = await vectorize(size, slots(first), { restart: { initialMs: 20 } });
    await vector.reset();
    await vector.step({ bet: 1 });
    await first.close();
    await using _ = await serve({ worlds: [dice], port: first.port });
    const lost = await vector.step({ bet: 1 });
    expect([...lost.valid]).toEqual([0, 0, 0, 0]);
    expect(lost.failures.every((failure) => failure instanceof Error)).toBe(true);
    expect([...(await vector.step({ bet: 1 })).first]).toEqual([1, 1, 1, 1]);
    expect([...(await vector.step({ bet: 1 })).first]).not.toEqual([1, 1, 1, 1]);
  });
});

describe("vectorize over several servers", () => {
  const slots = (...servers: Server[]) =>
    remoteSlots(
      servers.map(({ url }) => url),
      { as: dice, joinSettings: ({ seed }) => ({ seed: seed ?? 0n }) },
    );

  for (const autoresetMode of modes) {
    it(`joins a batch on each, and returns in mode ${autoresetMode} the same as a stream for each slot`, async () => {
      await using one = await serve({ worlds: [dice] });
      await using two = await serve({ worlds: [dice] });
      const options = { seed: 3n, autoresetMode } as const;
      await using vector = await vectorize(5, slots(one, two), options);
      expect([one.sessionCount, two.sessionCount]).toEqual([1, 1]);
      const alone = { ...options, batch: false };
      await using others = await vectorize(5, slots(one, two), alone);
      expect(plain(await vector.reset())).toEqual(plain(await others.reset()));
      for (let i = 0; i < 12; i++) {
        const bet = Int32Array.from([0, 1, 2, 3, 4], (slot) => (i + 2 * slot) % 7);
        const cards = Uint8Array.from({ length: 10 }, (_, at) => at);
        const actions =
          i % 2 === 0
            ? { bet, hand: { cards: tensor("uint8", [5, 2], cards) } }
            : Array.from(bet, (own) => ({ bet: own }));
        const mine = plain(await vector.step(actions));
        expect(mine).toEqual(plain(await others.step(actions)));
        const mask = mine.timeSteps.map((step) => step?.stepType === "last");
        if (autoresetMode === "disabled" && mask.includes(true)) {
          expect(plain(await vector.reset({ mask }))).toEqual(plain(await others.reset({ mask })));
        }
      }
    });
  }

  it("steps what was sent, and refuses some of the slots and bad actions", async () => {
    await using one = await serve({ worlds: [dice] });
    await using two = await serve({ worlds: [dice] });
    await using vector = await vectorize(4, slots(one, two), { seed: 3n });
    vector.sendReset();
    expect([...(await vector.recv()).first]).toEqual([1, 1, 1, 1]);
    vector.send({ bet: Int32Array.of(1, 2, 3, 4) });
    expect([...(await vector.recv()).reward]).toEqual([1, 2, 3, 4]);
    expect(() => vector.send([{ bet: 1 }], [0])).toThrow(/ids 0 to 3/);
    await expect(vector.leave([0])).rejects.toThrow(/leave together/);
    await expect(vector.step({ bet: Int32Array.of(1, 2, 3) })).rejects.toThrow(/each of 4 slots/);
    await expect(vector.step([{ bet: 1 }])).rejects.toThrow(/each of 4 slots/);
    vector.send({ bet: Int32Array.of(1, 2, 3, 99) });
    await expect(vector.recv()).rejects.toThrow(/99/);
    expect([...(await vector.reset()).first]).toEqual([1, 1, 1, 1]);
  });

  it("continues without the slots of a lost server until the server is back", async () => {
    await using one = await serve({ worlds: [dice] });
    const two = await serve({ worlds: [dice] });
    const options = { restart: { initialMs: 20, maxMs: 50, maxAttempts: 1000 } };
    await using vector = await vectorize(4, slots(one, two), options);
    await vector.reset();
    await two.close();
    const lost = await vector.step({ bet: 1 });
    expect([...lost.valid]).toEqual([1, 0, 1, 0]);
    expect(lost.failures.map((failure) => failure instanceof Error)).toEqual([
      false,
      true,
      false,
      true,
    ]);
    const absent = await vector.step({ bet: 1 });
    expect([...absent.valid]).toEqual([1, 0, 1, 0]);
    expect(absent.failures).toEqual([null, null, null, null]);
    await using _ = await serve({ worlds: [dice], port: two.port });
    await expect.poll(async () => [...(await vector.step({ bet: 1 })).valid]).toEqual([1, 1, 1, 1]);
  });

  it("opens a stream for each slot if one of the servers has no batches", async () => {
    const lone = defineWorld({
      name: "dice",
      actions: {},
      observations: { face: t.int32() },
      create: () => ({ step() {}, observe: { face: () => 1 } }),
    });
    const alike = defineEnvironment({
      name: "dice",
      actions: {},
      observations: { face: t.int32() },
      create: () => ({ reset: () => ({ face: 1 }), step: () => ({ observation: { face: 1 } }) }),
    });
    await using one = await serve({ worlds: [alike] });
    await using two = await serve({ worlds: [lone] });
    const remote = remoteSlots([one.url, two.url], { observations: ["face"] });
    await using vector = await vectorize(4, remote);
    await vector.reset();
    expect([one.sessionCount, two.sessionCount]).toEqual([2, 2]);
  });
});

describe("connection.join with seats", () => {
  /** An agent may end its own sequence; the others continue until the tenth tick. */
  const race = defineWorld({
    name: "race",
    lateEntry: "next-sequence",
    actions: { stop: t.bool(), stride: t.int32() },
    observations: { tick: t.int32(), place: t.int32(), reward: t.float32() },
    create() {
      let tick = 0;
      const places = new Map<number, number>();
      const stopped = new Set<number>();
      return {
        start({ agents }) {
          tick = 0;
          stopped.clear();
          for (const agent of agents) {
            places.set(agent, 0);
          }
        },
        step(actions) {
          tick += 1;
          for (const [agent, { stop, stride = 0 }] of actions) {
            places.set(agent, (places.get(agent) ?? 0) + stride);
            if (stop) {
              stopped.add(agent);
            }
          }
        },
        status: (agent) => (stopped.has(agent) || tick === 4 ? "terminated" : "running"),
        observe: {
          tick: () => tick,
          place: (agent) => places.get(agent) ?? 0,
          reward: (agent) => (stopped.has(agent) ? 10 : 1),
        },
      };
    },
  });

  it("behaviour 73: returns a vector of the rows, in which a row that waits is not valid", async () => {
    await using server = await serve({ worlds: [race] });
    await using connection = await connect(server.url);
    const world = await connection.createWorld();
    await using rows = await connection.join(world, { as: race, seats: 3 });
    expect([...(await rows.reset()).first]).toEqual([1, 1, 1]);
    const stride = Int32Array.of(1, 2, 3);
    const stop = Uint8Array.of(0, 1, 0);
    const ended = await rows.step({ stride, stop });
    expect(ended.observation.place.data).toEqual(stride);
    expect([...ended.terminated]).toEqual([0, 1, 0]);
    expect(ended.finalInfo).toEqual([null, { state: "terminated", steps: 1, return: 10 }, null]);
    for (let tick = 2; tick < 4; tick++) {
      const { valid, finalInfo } = await rows.step({ stride });
      expect([...valid]).toEqual([1, 0, 1]);
      expect(finalInfo).toEqual([null, null, null]);
    }
    const { finalInfo } = await rows.step([{ stride: 1 }, { stride: 1 }, { stride: 1 }]);
    const info = { state: "terminated", steps: 4, return: 4 };
    expect(finalInfo).toEqual([info, null, info]);
    expect([...(await rows.step({})).first]).toEqual([1, 1, 1]);
    await rows.step({ stride });
    expect([...(await rows.reset()).first]).toEqual([1, 1, 1]);
    await expect(rows.reset({ mask: [true, false, true] })).rejects.toThrow(/reset all/);
  });
});
