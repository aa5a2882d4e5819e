// SPDX-License-Identifier: Apache-2.0
import { EnvironmentStateType } from "@dm-env-rpc/protocol";
import { DmEnvRpcError, isDmEnvRpcError, type StatusCode } from "@dm-env-rpc/tensor-codec";
import { listen } from "@dm-env-rpc/transport";
import { describe, expect, test } from "vitest";
import { connect, gymnasium, isRefusal, worldFate } from "../index.ts";
import { joined } from "../testing/joined.ts";
import { connected, type Script, status, stepped } from "../testing/scripted-server.ts";

type Scene = Awaited<ReturnType<typeof joined>>;

const silent: Script = { answer: ({ case: kind }) => (kind === "step" ? "silence" : undefined) };
const refusing: Script = {
  answer: ({ case: kind }) => (kind === "step" ? status("INVALID_ARGUMENT", "not so") : undefined),
};
const confused: Script = {
  answer: ({ case: kind }) =>
    kind === "createWorld" ? stepped(EnvironmentStateType.RUNNING) : undefined,
};

/** Failures by name, with the call that provokes each and the expected error. */
const mishaps: readonly (readonly [
  string,
  Script,
  (scene: Scene) => Promise<unknown> | undefined,
  { readonly origin: string; readonly code: StatusCode; readonly isRefusal?: boolean },
])[] = [
  [
    "an error with which the server answers",
    refusing,
    ({ environment }) => environment.step({}),
    { origin: "server", code: "INVALID_ARGUMENT", isRefusal: true },
  ],
  [
    "a stream that the server ends with a status",
    silent,
    ({ environment, server }) => {
      const step = environment.step({});
      server.stream.abort(new DmEnvRpcError("UNAUTHENTICATED", "who are you?"));
      return step;
    },
    { origin: "server", code: "UNAUTHENTICATED" },
  ],
  [
    "a stream that ends without an answer",
    silent,
    ({ environment, server }) => {
      const step = environment.step({});
      server.stream.end();
      return step;
    },
    { origin: "connection", code: "UNAVAILABLE" },
  ],
  [
    "an answer of another kind",
    confused,
    ({ connection }) => connection.createWorld(),
    { origin: "connection", code: "INTERNAL" },
  ],
  [
    "a wait that reaches its timeout",
    silent,
    ({ environment }) => environment.step({}, { timeoutMs: 1 }),
    { origin: "client", code: "DEADLINE_EXCEEDED" },
  ],
  [
    "a wait that is canceled by its signal",
    silent,
    ({ environment }) => environment.step({}, { signal: AbortSignal.abort("enough") }),
    { origin: "client", code: "CANCELLED" },
  ],
  [
    "a step after leaving",
    {},
    async ({ environment }) => {
      await environment.close();
      await environment.step({});
    },
    { origin: "client", code: "FAILED_PRECONDITION" },
  ],
  [
    "a request after closing",
    {},
    async ({ connection }) => {
      await connection.close();
      await connection.leave();
    },
    { origin: "client", code: "FAILED_PRECONDITION" },
  ],
  [
    "a step through gymnasium() before the first reset",
    {},
    ({ environment }) => gymnasium(environment).step({}),
    { origin: "client", code: "FAILED_PRECONDITION" },
  ],
  [
    "a malformed address",
    {},
    () => connect("no address at all"),
    { origin: "client", code: "INVALID_ARGUMENT" },
  ],
];

describe("the origin of errors", () => {
  test.each(mishaps)("%s has the expected origin", async (_name, script, provoke, expected) => {
    const scene = await joined(script);
    const error: unknown = await Promise.resolve(provoke(scene)).then(
      () => expect.fail("expected a rejection"),
      (thrown: unknown) => thrown,
    );
    const { origin, code, isRefusal: refusal = false } = expected;
    expect(isDmEnvRpcError(error)).toBe(true);
    expect(error).toMatchObject({ origin, code });
    expect(isRefusal(error)).toBe(refusal);
    await scene.connection.close({ timeoutMs: 0 });
  });

  test("is the connection if no server listens, and the error has the cause", async () => {
    const gone = await listen({ onStream: () => {} });
    await gone.close();
    const error: unknown = await connect(gone.url).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({
      origin: "connection",
      code: "UNAVAILABLE",
      cause: { code: "ECONNREFUSED" },
    });
    expect(worldFate(error)).toBeUndefined();
  });

  test("does not determine worldFate, which is defined only for the error of a lost stream", async () => {
    const { connection, server } = await connected(silent);
    const lost = connection.closed;
    const cause = new DmEnvRpcError("UNAVAILABLE", "power cut", { origin: "connection" });
    server.stream.abort(cause);
    const error = await lost;
    expect(error).toMatchObject({ code: "UNAVAILABLE", cause: { message: "power cut" } });
    expect(worldFate(error)).toBe("unknown");
    expect(isRefusal(error)).toBe(false);
    expect(worldFate(cause)).toBeUndefined();
  });
});
