// SPDX-License-Identifier: Apache-2.0

import { EnvironmentStateType } from "@dm-env-rpc/protocol";
import { DmEnvRpcError, t, tensor } from "@dm-env-rpc/tensor-codec";
import { framed, type RawAnswer, rawServer } from "@dm-env-rpc/tests-processes";
import { describe, expect, test } from "vitest";
import type { Environment } from "../environment/environment.ts";
import { scriptedWorld, stepped } from "../testing/scripted-server.ts";
import { connect } from "./connect.ts";

/** Time within which every fault must be detected; far more than any fault needs. */
const deadlineMs = 60_000;

/** Answers as a scripted world does, except that every step from the third on is answered with `fault`. */
function faulty(fault: RawAnswer): () => RawAnswer {
  return () => {
    const world = scriptedWorld({ observations: { tick: t.int32() }, sequenceLength: 100 });
    let steps = 0;
    return (request, stream) =>
      request.case === "step" && ++steps >= 3 ? fault(request, stream) : world(request);
  };
}

async function thirdStep(
  fault: RawAnswer,
  step: (environment: Environment) => Promise<unknown> = (environment) => environment.step({}),
  nextTimeoutMs = deadlineMs,
) {
  await using server = await rawServer(faulty(fault));
  const connection = await connect(server.address);
  const environment = await connection.join("world");
  await environment.step({});
  await environment.step({});
  const began = performance.now();
  const error: unknown = await step(environment).then(
    () => expect.fail("expected the third step to fail"),
    (caught: unknown) => caught,
  );
  expect(performance.now() - began).toBeLessThan(deadlineMs);
  const next: unknown = await environment
    .step({}, { timeoutMs: nextTimeoutMs })
    .catch((caught: unknown) => caught);
  await environment.close({ timeoutMs: deadlineMs }).catch(() => undefined);
  await connection.close({ timeoutMs: deadlineMs });
  return { error, next, closed: await connection.closed };
}

const observed = (shape: number[], data: Int32Array) => ({
  case: "step" as const,
  value: {
    state: EnvironmentStateType.RUNNING,
    observations: [{ uid: 101, tensor: tensor("int32", shape, data) }],
  },
});

describe("a faulty server", () => {
  test("that answers with a response of another kind: Internal, and the connection is closed", async () => {
    const { error, next, closed } = await thirdStep(() => ({
      case: "leaveWorld",
      value: { $typeName: "dm_env_rpc.v1.LeaveWorldResponse" },
    }));
    expect(error).toMatchObject({ code: "INTERNAL" });
    expect(String(error)).toMatch(
      /a step request with a step response .*received a leaveWorld response/,
    );
    expect(next).toBe(error);
    expect(closed).toBe(error);
  });

  test("that answers with a wrong shape: a TensorError, and the connection continues", async () => {
    const { error, closed } = await thirdStep(() => observed([3], new Int32Array(3)));
    expect(error).toMatchObject({ name: "TensorError", reason: "shape", specName: "tick" });
    expect(closed).toBeUndefined();
  });

  test("whose states are in an illegal order: Internal, and the connection continues", async () => {
    let ends = 0;
    const { next, closed } = await thirdStep(
      () => {
        ends++;
        const end = observed([], new Int32Array(1));
        return { ...end, value: { ...end.value, state: EnvironmentStateType.TERMINATED } };
      },
      async (environment) => {
        await environment.step({});
        return await environment.step({});
      },
    );
    expect(ends).toBe(3);
    expect(next).toMatchObject({ code: "INTERNAL" });
    expect(String(next)).toMatch(/expected running after terminated, received terminated/);
    expect(closed).toBeUndefined();
  });

  test("that answers too late: DeadlineExceeded, and the late answer is not paired with another request", async () => {
    const { error, next } = await thirdStep(
      (_request, stream) => {
        setTimeout(() => stream.write(framed(observed([], new Int32Array([3])))), 30);
        return "silence";
      },
      (environment) => environment.step({}, { timeoutMs: 5 }),
    );
    expect(error).toMatchObject({ code: "DEADLINE_EXCEEDED" });
    expect(next).toMatchObject({ stepType: "mid", observation: { tick: 3 } });
  });

  test("that never answers: DeadlineExceeded, and the next response reveals that one is missing", async () => {
    const { error, next, closed } = await thirdStep(
      () => "silence",
      (environment) => environment.step({}, { timeoutMs: 5 }),
      100,
    );
    expect(error).toMatchObject({ code: "DEADLINE_EXCEEDED" });
    expect(next).toMatchObject({ code: "DEADLINE_EXCEEDED" });
    expect(closed).toMatchObject({ code: "INTERNAL" });
    expect(String(closed)).toMatch(
      /a step request with a step response .*received a leaveWorld response/,
    );
  });

  test("that ends the stream within a frame: an error of the stream", async () => {
    const { error, next } = await thirdStep((_request, stream) => {
      stream.end(framed(observed([], new Int32Array(1))).subarray(0, 9));
      return "silence";
    });
    expect(error).toBeInstanceOf(DmEnvRpcError);
    expect(String(error)).toMatch(/1 request to .* will not be answered/);
    expect(next).toBe(error);
  });

  test("that sends undecodable bytes: DataLoss, and the connection is closed", async () => {
    const { error, next } = await thirdStep((_request, stream) => {
      stream.write(Buffer.from([0, 0, 0, 0, 3, 0x1a, 0xff, 0xff]));
      return "silence";
    });
    expect(error).toMatchObject({ code: "DATA_LOSS" });
    expect(next).toBe(error);
  });

  test("that ends the stream without an error while a step is open: Unavailable", async () => {
    const { error, next } = await thirdStep((_request, stream) => {
      stream.end();
      return "silence";
    });
    expect(error).toMatchObject({ code: "UNAVAILABLE" });
    expect(next).toBe(error);
  });

  test("that resets the stream: one error for all open steps", async () => {
    await using server = await rawServer(
      faulty((_request, stream) => {
        stream.close(8);
        return "silence";
      }),
    );
    const connection = await connect(server.address);
    const environment = await connection.join("world");
    const outcomes = await Promise.allSettled(
      Array.from({ length: 50 }, () => environment.step({})),
    );
    const reasons = outcomes.flatMap((outcome) =>
      outcome.status === "rejected" ? [outcome.reason] : [],
    );
    expect(reasons.length).toBeGreaterThanOrEqual(48);
    expect(new Set(reasons).size).toBe(1);
    expect(reasons[0]).toBeInstanceOf(DmEnvRpcError);
    await connection.close();
  });

  test("that closes the stream between two steps: the next step rejects at once", async () => {
    await using server = await rawServer(faulty(() => stepped(EnvironmentStateType.RUNNING)));
    const connection = await connect(server.address);
    const environment = await connection.join("world");
    await environment.step({});
    server.cut();
    const closed = await connection.closed;
    expect(closed).toMatchObject({ code: "UNAVAILABLE" });
    await expect(environment.step({})).rejects.toBe(closed);
    await environment.close();
    await connection.close();
  });

  test("that was restarted: the old connection is lost, a new one works", async () => {
    const first = await rawServer(faulty(() => "silence"));
    const { port } = first;
    const connection = await connect(first.address);
    const environment = await connection.join("world");
    await first[Symbol.asyncDispose]();
    await using second = await rawServer(
      faulty(() => "silence"),
      port,
    );
    await expect(environment.step({})).rejects.toBeInstanceOf(DmEnvRpcError);
    await using again = await connect(second.address);
    const joined = await again.join("world");
    expect((await joined.step({})).first()).toBe(true);
    await connection.close();
  });

  test("that does not exist: Unavailable, with the remedy", async () => {
    const server = await rawServer(faulty(() => "silence"));
    await server[Symbol.asyncDispose]();
    const refused = connect(server.address);
    await expect(refused).rejects.toMatchObject({ code: "UNAVAILABLE" });
    await expect(refused).rejects.toThrow(/no server listens/);
  });
});
