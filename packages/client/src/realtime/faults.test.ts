// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { packStatus } from "@dm-env-rpc/tensor-codec/proto";
import type { ProcessRequest, ProcessResponse } from "@dm-env-rpc/tensor-codec/wire";
import { manualTime } from "@dm-env-rpc/transport/internal";
import { describe, expect, test } from "vitest";
import { joined } from "../testing/joined.ts";
import { realtime } from "./index.ts";

test("an error thrown by remoteTimeMs fails only that environment", async () => {
  const time = manualTime();
  const [good, bad] = [await joined(), await joined()];
  let readings = 0;
  const env = realtime([good.environment, bad.environment], {
    time,
    remoteTimeMs: () => {
      if (++readings === 2) {
        throw new Error("no time in this observation");
      }
      return 0;
    },
  });
  await env.reset();
  while (!env.failures().some((failure) => failure !== undefined)) {
    await env.next();
  }
  expect(env.failures()).toMatchObject([undefined, { message: "no time in this observation" }]);
  expect(env.take().info.n.map(({ status }) => status)).toEqual(["running", "failed"]);
  await env.close();
});

test("acting or resetting after close is refused, and nothing is sent", async () => {
  const { environment, server } = await joined();
  const env = realtime(environment);
  await env.reset();
  await env.next();
  await env.close();
  const sent = server.requests.length;
  const refusal = {
    code: "FAILED_PRECONDITION",
    origin: "client",
    message: expect.stringMatching(/after close; create another/),
  };
  await expect(env.step([{}])).rejects.toMatchObject(refusal);
  await expect(env.reset()).rejects.toMatchObject(refusal);
  expect(server.requests).toHaveLength(sent);
});

/** Runs everything that can run without time passing. */
async function quiet(): Promise<void> {
  for (let turn = 0; turn < 10; turn++) {
    await new Promise((resolve) => setImmediate(resolve));
  }
}

describe("behaviour 68: a refused action", () => {
  /** Refuses moves to 4. */
  const refusing = (request: ProcessRequest): ProcessResponse | undefined => {
    const isRefused =
      request.case === "step" && request.value.actions.some(({ tensor }) => tensor.data[0] === 4);
    const error = new DmEnvRpcError("INVALID_ARGUMENT", "there is a wall");
    return isRefused ? { case: "error", value: packStatus(error) } : undefined;
  };

  test.each([
    ["the world", 4, { code: "INVALID_ARGUMENT", message: "there is a wall" }],
    ["its spec, before it is sent", 5, { name: "TensorError", specName: "move" }],
  ])("by %s is in the info once, and the environment continues", async (_by, move, refusal) => {
    const time = manualTime();
    const { environment } = await joined({ answer: refusing, sequenceLength: 1_000 });
    const env = realtime(environment, { time, pollIntervalMs: 10 });
    await env.reset();
    await env.next();
    env.take();
    env.act([{ move }]);
    await env.next();
    expect(env.failures()).toEqual([undefined]);
    expect(env.take().info.n).toMatchObject([{ status: "running", refusal }]);
    const { tick } = env.peek()[0] as { tick: number };
    time.advance(10);
    await env.next();
    expect(env.peek()).toMatchObject([{ tick: tick + 1 }]);
    env.act([{ move: 3 }]);
    await env.next();
    const { observationN, info } = env.take();
    expect(observationN).toMatchObject([{ tick: tick + 2 }]);
    expect(info.n).toMatchObject([{ status: "running", refusal: undefined, failure: undefined }]);
    await env.close();
  });

  test("is not reported after a reset, whether the refusal arrived before or after it", async () => {
    const { environment } = await joined({ answer: refusing, sequenceLength: 1_000 });
    const env = realtime(environment, { time: manualTime() });
    await env.reset();
    await env.next();
    const running = [{ status: "running", refusal: undefined }];
    env.act([{ move: 4 }]);
    await env.next();
    await env.reset();
    await env.next();
    expect(env.take().info.n).toMatchObject(running);
    env.act([{ move: 4 }]);
    await env.reset();
    await env.next();
    expect(env.take().info.n).toMatchObject(running);
    await env.close();
  });

  test("ends the environment if the next poll is refused, too", async () => {
    const time = manualTime();
    let isLost = false;
    const { environment, server } = await joined({
      sequenceLength: 1_000,
      answer: () => {
        const error = new DmEnvRpcError("NOT_FOUND", "the world is gone");
        return isLost ? { case: "error", value: packStatus(error) } : undefined;
      },
    });
    const env = realtime(environment, { time, pollIntervalMs: 10 });
    await env.reset();
    await env.next();
    isLost = true;
    env.act([{ move: 1 }]);
    await env.next();
    expect(env.failures()).toEqual([undefined]);
    time.advance(10);
    await env.next();
    expect(env.failures()).toMatchObject([{ code: "NOT_FOUND" }]);
    expect(env.take().info.n).toMatchObject([{ status: "failed", refusal: undefined }]);
    const sent = server.requests.length;
    expect(await env.reset()).toEqual([null]);
    await quiet();
    expect(server.requests).toHaveLength(sent);
    await env.next(); // Resolves at once, because every environment has failed.
  });

  test("is not mistaken for a lost connection, which ends the environment at once", async () => {
    const { environment } = await joined({
      sequenceLength: 1_000,
      answer: (request, { stream }) => {
        if (request.case !== "step" || request.value.actions.length === 0) {
          return undefined;
        }
        stream.abort(new DmEnvRpcError("UNKNOWN", "power cut"));
        return "silence";
      },
    });
    const env = realtime(environment, { time: manualTime() });
    await env.reset();
    await env.next();
    env.act([{ move: 1 }]);
    await env.next();
    expect(env.failures()).toMatchObject([{ code: "UNKNOWN" }]);
  });
});

test("the first of two failures is reported", async () => {
  let refused = 0;
  const { environment } = await joined({
    answer: ({ case: kind }) =>
      kind === "step"
        ? {
            case: "error",
            value: packStatus(new DmEnvRpcError("NOT_FOUND", `refusal ${++refused}`)),
          }
        : undefined,
  });
  const env = realtime(environment, { time: manualTime() });
  await env.reset();
  await env.reset();
  await env.next();
  await quiet();
  expect(refused).toBe(2);
  expect(env.failures()).toMatchObject([{ message: "refusal 1" }]);
});

test("an error that remoteTimeMs throws after a poll also fails the environment", async () => {
  const time = manualTime();
  const { environment } = await joined({ sequenceLength: 9 });
  const env = realtime(environment, {
    time,
    remoteTimeMs: (observation) => {
      if (observation["tick"] === 1) {
        throw new Error("no time in this observation");
      }
      return undefined;
    },
  });
  await env.reset();
  await env.next();
  time.advance(0);
  await env.next();
  expect(env.failures()).toMatchObject([{ message: "no time in this observation" }]);
});

test("closing leaves the world, ends the polls, and does not fail requests in flight", async () => {
  const time = manualTime();
  const { environment, server } = await joined({ sequenceLength: 9 });
  const env = realtime(environment, { time, pollIntervalMs: 10 });
  await env.reset();
  await env.next();
  env.act([{ move: 1 }]);
  await env.close();
  expect(server.requests.at(-1)?.case).toBe("leaveWorld");
  await env.next(); // Resolves at once, because the environment is closed.
  const sent = server.requests.length;
  time.advance(1_000);
  await quiet();
  expect(env.failures()).toEqual([undefined]);
  expect(server.requests).toHaveLength(sent);
});
