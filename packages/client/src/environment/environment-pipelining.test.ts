// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { joined, steps } from "../testing/joined.ts";
import { connected, status } from "../testing/scripted-server.ts";

describe("behaviour 33: overlapping steps", () => {
  test("continue across the ends of sequences", async () => {
    const { connection, environment } = await joined({ sequenceLength: 2 });
    await using _ = connection;
    const steps = await Promise.all([1, 2, 3, 4, 0].map((move) => environment.step({ move })));
    expect(steps.map(({ stepType }) => stepType)).toEqual(["first", "mid", "last", "first", "mid"]);
  });

  test("stepMany continues across the ends of sequences, also with more steps than the window has room for", async () => {
    const { connection } = await connected({ sequenceLength: 4 }, { maxInFlight: 3 });
    await using _ = connection;
    const environment = await connection.join("world");
    const [steps, after] = await Promise.all([
      environment.stepMany(Array.from({ length: 100 }, () => ({ move: 2 }))),
      environment.step({ move: 1 }),
    ]);
    expect(steps.map(({ observation }) => observation["tick"])).toEqual(
      Array.from({ length: 100 }, (_, i) => i % 5),
    );
    expect(after.first()).toBe(true);
    await expect(environment.stepMany([])).resolves.toEqual([]);
  });

  test("stepMany reads actions from a generator only as the window has room, and closes the generator when it is aborted", async () => {
    const { connection, server } = await connected(
      { answer: (request) => (request.case === "step" ? "silence" : undefined) },
      { maxInFlight: 2 },
    );
    const environment = await connection.join("world");
    let taken = 0;
    let returned = false;
    function* actions() {
      try {
        for (;;) {
          taken++;
          yield { move: 1 };
        }
      } finally {
        returned = true;
      }
    }
    const controller = new AbortController();
    const steps = environment.stepMany(actions(), { signal: controller.signal });
    await server.received(3);
    expect(taken).toBeLessThanOrEqual(3);
    controller.abort();
    await expect(steps).rejects.toMatchObject({ code: "CANCELLED" });
    expect(returned).toBe(true);
    await connection.close({ timeoutMs: 1 });
  });

  test("stepMany rejects with the first error and sends no more steps", async () => {
    const { connection, server, environment } = await joined({ sequenceLength: 9 });
    await using _ = connection;
    await environment.reset();
    await expect(
      environment.stepMany([{ move: 1 }, { move: 99 }, { move: 1 }]),
    ).rejects.toMatchObject({ reason: "bounds" });
    expect((await environment.step({})).observation).toEqual({ tick: 2 });
    expect(steps(server.requests)).toHaveLength(3);
  });
});

describe("leaving a world", () => {
  test("environment.close() leaves the world once, and later steps reject", async () => {
    const { connection, server, environment } = await joined();
    await using _ = connection;
    await Promise.all([environment.close(), environment.close()]);
    expect(server.requests.map((request) => request.case)).toEqual(["joinWorld", "leaveWorld"]);
    await expect(environment.step({})).rejects.toMatchObject({ code: "FAILED_PRECONDITION" });
    await expect(environment.reset()).rejects.toMatchObject({ code: "FAILED_PRECONDITION" });
  });

  test("with destroyOnClose, close() also destroys the world", async () => {
    const { connection, server, environment } = await joined({}, { destroyOnClose: true });
    await using _ = connection;
    await environment.close();
    expect(server.requests.at(-1)).toMatchObject({
      case: "destroyWorld",
      value: { worldName: "world" },
    });
  });

  test("connection.leave() ends its environment, and the world can be joined again", async () => {
    const { connection, environment } = await joined();
    await using _ = connection;
    await connection.leave();
    await expect(environment.step({})).rejects.toMatchObject({ code: "FAILED_PRECONDITION" });
    const again = await connection.join("world");
    expect((await again.step({})).first()).toBe(true);
    await environment.close();
    expect((await again.step({})).mid()).toBe(true);
  });

  test("close() of an environment whose connection is closed does not throw", async () => {
    const { connection, environment } = await joined();
    await connection.close();
    await environment.close();
  });

  test("close() rejects after its timeout if the server never answers the leave", async () => {
    const { connection, environment } = await joined({
      answer: (request) => (request.case === "leaveWorld" ? "silence" : undefined),
    });
    await expect(environment.close({ timeoutMs: 1 })).rejects.toMatchObject({
      code: "DEADLINE_EXCEEDED",
    });
    await connection.close({ timeoutMs: 1 });
  });
});

test("an error Status rejects only its step and changes nothing", async () => {
  let refuse = false;
  const { connection, environment } = await joined({
    answer: (request) =>
      request.case === "step" && refuse ? status("INVALID_ARGUMENT", "no") : undefined,
  });
  await using _ = connection;
  await environment.reset();
  refuse = true;
  await expect(environment.step({})).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
  refuse = false;
  expect(await environment.step({})).toMatchObject({ stepType: "mid", observation: { tick: 1 } });
});
