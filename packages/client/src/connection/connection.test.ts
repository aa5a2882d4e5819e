// SPDX-License-Identifier: Apache-2.0
import { getEventListeners } from "node:events";
import { create } from "@bufbuild/protobuf";
import {
  CreateWorldRequestSchema,
  EnvironmentStateType,
  LeaveWorldRequestSchema,
} from "@dm-env-rpc/protocol";
import { DmEnvRpcError, pack } from "@dm-env-rpc/tensor-codec";
import type { ProcessRequest } from "@dm-env-rpc/tensor-codec/wire";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { connected, status, stepped } from "../testing/scripted-server.ts";

const stepRequest: ProcessRequest = {
  case: "step",
  value: { actions: [], requestedObservations: [] },
};
const leave: ProcessRequest = { case: "leaveWorld", value: create(LeaveWorldRequestSchema) };

/** Returns the error that a promise rejects with. */
async function rejection(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    (value) => expect.fail(`expected a rejection, received ${JSON.stringify(value)}`),
    (error: unknown) => error,
  );
}

describe("behaviour 2: one response for each request", () => {
  test("overlapping requests are answered in the order of the calls", async () => {
    await using connection = (await connected()).connection;
    const answers: string[] = [];
    const note = (name: string) => () => void answers.push(name);
    await Promise.all([
      connection.createWorld().then(note("create")),
      connection.leave().then(note("leave")),
      connection.destroyWorld("world").then(note("destroy")),
      connection.createWorld().then(note("create")),
    ]);
    expect(answers).toEqual(["create", "leave", "destroy", "create"]);
  });

  test("an error Status rejects its request, and the stream continues", async () => {
    const { connection } = await connected({
      answer: ({ case: kind }) =>
        kind === "destroyWorld" ? status("NOT_FOUND", "no such world") : undefined,
    });
    await using _ = connection;
    const error = await rejection(connection.destroyWorld("nowhere"));
    expect(error).toBeInstanceOf(DmEnvRpcError);
    expect(error).toMatchObject({ code: "NOT_FOUND", message: "no such world" });
    await expect(connection.createWorld()).resolves.toBe("world");
  });

  test("a response of another kind closes the connection with an error that names both kinds", async () => {
    const { connection, server } = await connected({
      answer: () => stepped(EnvironmentStateType.RUNNING),
    });
    const [first, second] = await Promise.all([
      rejection(connection.createWorld()),
      rejection(connection.leave()),
    ]);
    expect(first).toBeInstanceOf(DmEnvRpcError);
    expect((first as DmEnvRpcError).message).toMatch(/createWorld.*received a step response/);
    expect(second).toBe(first);
    await expect(connection.closed).resolves.toBe(first);
    await expect(server.closed).resolves.toBeInstanceOf(Error);
  });

  test("a response without a request closes the connection", async () => {
    const { connection, server } = await connected();
    server.stream.send(stepped(EnvironmentStateType.RUNNING));
    const error = await connection.closed;
    expect(error).toMatchObject({ code: "INTERNAL" });
    expect(error?.message).toMatch(/no request was open/);
    await expect(rejection(connection.leave())).resolves.toBe(error);
  });

  test("a request without a payload is answered with an error", async () => {
    await using connection = (
      await connected({ answer: () => status("INVALID_ARGUMENT", "no payload") })
    ).connection;
    await expect(connection.send({ case: undefined })).rejects.toMatchObject({
      code: "INVALID_ARGUMENT",
    });
  });
});

describe("behaviour 3: requests in flight", () => {
  test("at most maxInFlight requests are in flight; a response lets the next one be sent", async () => {
    const { connection, server } = await connected({ answer: () => "silence" }, { maxInFlight: 2 });
    const steps = Array.from({ length: 5 }, () => connection.send(stepRequest));
    await server.received(2);
    server.stream.send(stepped(EnvironmentStateType.RUNNING));
    await steps[0];
    await server.received(3);
    expect(server.requests).toHaveLength(3);
    for (let i = 0; i < 4; i++) {
      await server.received(i + 2);
      server.stream.send(stepped(EnvironmentStateType.RUNNING));
    }
    await Promise.all(steps);
    await connection.close();
  });

  test("a request beyond maxWaiting is refused, and the earlier ones are answered", async () => {
    const { connection } = await connected({}, { maxInFlight: 1, maxWaiting: 2 });
    await using _ = connection;
    const made = Array.from({ length: 4 }, () => connection.leave());
    await expect(made[3]).rejects.toMatchObject({ code: "RESOURCE_EXHAUSTED" });
    await Promise.all(made.slice(0, 3));
  });

  test("a caller may reuse the memory of a step while the step waits to be sent", async () => {
    const { connection, server } = await connected({}, { maxInFlight: 1 });
    await using _ = connection;
    const data = new Float32Array([1, 2]);
    const step: ProcessRequest = {
      case: "step",
      value: { actions: [{ uid: 1, tensor: pack(data) }], requestedObservations: [] },
    };
    const sent = [connection.send(step), connection.send(step)];
    data.fill(9);
    await Promise.all(sent);
    for (const request of server.requests) {
      expect(request).toMatchObject({
        value: { actions: [{ tensor: { data: new Float32Array([1, 2]) } }] },
      });
    }
  });
});

describe("the wait for a response", () => {
  test("a request that timed out stays queued, so that its late response is not paired with another request", async () => {
    const { connection, server } = await connected({
      answer: ({ case: kind }) => (kind === "step" ? "silence" : undefined),
    });
    await using _ = connection;
    const late = connection.send(stepRequest, { timeoutMs: 1 });
    await expect(late).rejects.toMatchObject({ code: "DEADLINE_EXCEEDED" });
    await server.received(1);
    const next = connection.createWorld();
    server.stream.send(stepped(EnvironmentStateType.RUNNING));
    await expect(next).resolves.toBe("world");
  });

  test("does not end with a timeoutMs of Infinity", async () => {
    const { connection, server } = await connected({
      answer: ({ case: kind }) => (kind === "step" ? "silence" : undefined),
    });
    await using _ = connection;
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
    const step = connection.send(stepRequest, { timeoutMs: Number.POSITIVE_INFINITY });
    vi.advanceTimersByTime(1_000_000);
    vi.useRealTimers();
    await server.received(1);
    server.stream.send(stepped(EnvironmentStateType.RUNNING));
    await expect(step).resolves.toMatchObject({ case: "step" });
  });

  test("leaves no timer or listener after the response", async () => {
    await using connection = (await connected()).connection;
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    onTestFinished(() => void vi.useRealTimers());
    const { signal } = new AbortController();
    const response = connection.leave({ timeoutMs: 60_000, signal });
    expect(vi.getTimerCount()).toBe(1);
    await response;
    expect(vi.getTimerCount()).toBe(0);
    expect(getEventListeners(signal, "abort")).toEqual([]);
  });

  test("ends when its signal aborts, with the reason as the cause, and the connection continues", async () => {
    const { connection, server } = await connected({
      answer: ({ case: kind }, { stream }) => {
        if (kind === "step") {
          return "silence";
        }
        stream.send(stepped(EnvironmentStateType.RUNNING));
        return undefined;
      },
    });
    await using _ = connection;
    const reason = new Error("changed my mind");
    const controller = new AbortController();
    const step = connection.send(stepRequest, { signal: controller.signal });
    await server.received(1);
    controller.abort(reason);
    await expect(step).rejects.toMatchObject({ code: "CANCELLED", cause: reason });
    await expect(connection.createWorld()).resolves.toBe("world");
    await expect(connection.leave({ signal: controller.signal })).rejects.toMatchObject({
      code: "CANCELLED",
    });
  });

  test("a request is never sent if its wait ends before the window has room for it", async () => {
    const { connection, server } = await connected({ answer: () => "silence" }, { maxInFlight: 1 });
    const first = connection.send(leave);
    const controller = new AbortController();
    const second = connection.send(stepRequest, { signal: controller.signal });
    const third = connection.send({ case: "createWorld", value: create(CreateWorldRequestSchema) });
    controller.abort();
    await expect(second).rejects.toMatchObject({ code: "CANCELLED" });
    await server.received(1);
    server.stream.abort(new DmEnvRpcError("ABORTED", "enough"));
    await Promise.all([rejection(first), rejection(third)]);
    expect(server.requests.map((request) => request.case)).toEqual(["leaveWorld"]);
  });
});

describe("the end of a connection", () => {
  test("a lost stream rejects all outstanding and later calls with one error", async () => {
    const { connection, server } = await connected({ answer: () => "silence" }, { maxInFlight: 2 });
    const open = [connection.leave(), connection.leave(), connection.leave()].map(rejection);
    await server.received(2);
    server.stream.abort(new DmEnvRpcError("UNAVAILABLE", "power cut"));
    const errors = await Promise.all(open);
    expect(errors[0]).toBeInstanceOf(DmEnvRpcError);
    expect(new Set(errors).size).toBe(1);
    expect((errors[0] as DmEnvRpcError).message).toMatch(
      /^3 requests to the server will not be answered: power cut/,
    );
    await expect(rejection(connection.leave())).resolves.toBe(errors[0]);
    await expect(connection.closed).resolves.toBe(errors[0]);
    await connection.close();
  });

  test("a server that ends the stream early rejects the unanswered calls", async () => {
    const { connection, server } = await connected({ answer: () => "silence" });
    const open = rejection(connection.leave());
    await server.received(1);
    server.stream.end();
    const error = await open;
    expect(error).toMatchObject({ code: "UNAVAILABLE" });
    expect((error as DmEnvRpcError).message).toMatch(/1 request .* the server ended the stream/);
  });

  test("close waits for the responses to requests in flight", async () => {
    const { connection, server } = await connected();
    const world = connection.createWorld();
    await connection.close();
    await expect(world).resolves.toBe("world");
    expect(server.ended).toBe(true);
    await expect(connection.closed).resolves.toBeUndefined();
    await expect(connection.leave()).rejects.toMatchObject({ code: "FAILED_PRECONDITION" });
  });

  test("close rejects requests that wait to be sent; drain sends them", async () => {
    const script = { sequenceLength: 1 };
    const closing = (await connected(script, { maxInFlight: 1 })).connection;
    const [answered, waiting] = [closing.createWorld(), rejection(closing.createWorld())];
    await closing.close();
    await expect(answered).resolves.toBe("world");
    expect(await waiting).toMatchObject({ code: "CANCELLED" });

    const draining = (await connected(script, { maxInFlight: 1 })).connection;
    const made = [draining.createWorld(), draining.createWorld(), draining.createWorld()];
    await draining.drain();
    await expect(Promise.all(made)).resolves.toHaveLength(3);
  });

  test("close does not wait forever for a server that never answers", async () => {
    const { connection, server } = await connected({ answer: () => "silence", deaf: true });
    const open = rejection(connection.leave());
    await server.received(1);
    await connection.close({ timeoutMs: 1 });
    expect(await open).toMatchObject({ code: "CANCELLED" });
    await expect(server.closed).resolves.toBeInstanceOf(Error);
  });

  test("drain rejects after its timeout, and close still ends the stream", async () => {
    const { connection, server } = await connected({ answer: () => "silence", deaf: true });
    const open = rejection(connection.leave());
    await server.received(1);
    await expect(connection.drain({ timeoutMs: 1 })).rejects.toMatchObject({
      code: "DEADLINE_EXCEEDED",
    });
    await connection.close({ timeoutMs: 1 });
    await open;
  });

  test("close may be called twice", async () => {
    const { connection } = await connected();
    await Promise.all([connection.close(), connection.close()]);
    await connection.close();
  });
});
