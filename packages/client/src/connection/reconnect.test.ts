// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError, t } from "@dm-env-rpc/tensor-codec";
import { memoryStreamPair } from "@dm-env-rpc/transport";
import { backoffMs } from "@dm-env-rpc/transport/internal";
import { describe, expect, test } from "vitest";
import { type ReconnectStatus, worldFate } from "../index.ts";
import {
  connected,
  type Script,
  type ScriptedServer,
  scriptedServer,
  status,
} from "../testing/scripted-server.ts";
import { connect } from "./connect.ts";

/**
 * Creates a reconnecting connection.
 *
 * @param scripts Scripts of successive servers; the last script is also that of all later servers.
 */
async function reconnecting(
  scripts: readonly (Script | "down")[],
  maxAttempts: number | "default" = 3,
) {
  const servers: ScriptedServer[] = [];
  const statuses: ReconnectStatus[] = [];
  let opened = 0;
  const open = async () => {
    const script = scripts[Math.min(opened++, scripts.length - 1)];
    if (script === undefined || script === "down") {
      throw new DmEnvRpcError("UNAVAILABLE", "no server there");
    }
    const [client, server] = memoryStreamPair();
    servers.push(scriptedServer(server, script));
    return client;
  };
  const connection = await connect(
    { stream: await open(), reopen: open },
    {
      reconnect: {
        initialMs: 0,
        ...(maxAttempts === "default" ? {} : { maxAttempts }),
        onStatus: (next) => statuses.push(next),
      },
    },
  );
  /** Cuts the stream, and resolves once the client has noticed. */
  const cut = async (): Promise<void> => {
    const before = statuses.length;
    servers.at(-1)?.stream.abort(new DmEnvRpcError("UNAVAILABLE", "power cut"));
    while (statuses.length === before) {
      await new Promise((resolve) => setImmediate(resolve));
    }
  };
  return { connection, servers, statuses, cut };
}

const long = { sequenceLength: 100 };
const silentSteps: Script = {
  ...long,
  answer: (request, { requests }) =>
    request.case === "step" && requests.length > 3 ? "silence" : undefined,
};
const caught = (promise: Promise<unknown>) =>
  promise.then(
    () => expect.fail("expected a rejection"),
    (error: unknown) => error,
  );

describe("without reconnect, which is the default", () => {
  test("a lost stream stays lost, and the fate of the world is unknown", async () => {
    const { connection, server } = await connected(long);
    const environment = await connection.join("world");
    await environment.step({});
    server.stream.abort(new DmEnvRpcError("UNAVAILABLE", "power cut"));
    const error = await connection.closed;
    expect(worldFate(error)).toBe("unknown");
    await expect(environment.step({})).rejects.toBe(error);
    expect(worldFate(new Error("other"))).toBeUndefined();
  });
});

describe("with reconnect", () => {
  test("open calls reject, the agent joins the same world again, and its next step is a first step", async () => {
    const { connection, servers, statuses, cut } = await reconnecting([silentSteps, long]);
    await using _ = connection;
    const environment = await connection.join("world", { settings: { name: "bob" } });
    await environment.step({});
    await environment.step({});
    const open = [environment.step({}), environment.step({})].map(caught);
    await servers[0]?.received(5);
    await cut();
    const [first, second] = await Promise.all(open);
    expect(first).toBe(second);
    expect(worldFate(first)).toBe("kept");
    expect(String(first)).toMatch(/2 requests .* power cut.* joined its world again/);
    expect((await environment.step({ move: 3 })).first()).toBe(true);
    expect(servers[1]?.requests[0]).toMatchObject({
      case: "joinWorld",
      value: { worldName: "world", settings: { name: { payload: { case: "strings" } } } },
    });
    expect(statuses.map(({ kind }) => kind)).toEqual(["reconnecting", "reconnected"]);
    expect(statuses[1]).toMatchObject({ world: "kept", attempt: 1 });
  });

  test("if no call was open when the connection was lost, the next step rejects once", async () => {
    const { connection, cut } = await reconnecting([long, long]);
    await using _ = connection;
    const environment = await connection.join("world");
    await environment.step({});
    await cut();
    expect(worldFate(await caught(environment.step({})))).toBe("kept");
    expect((await environment.step({})).first()).toBe(true);
    expect((await environment.step({})).mid()).toBe(true);
  });

  test("a reset after a lost connection does not reject, because it begins a new sequence anyway", async () => {
    const { connection, cut } = await reconnecting([long, long]);
    await using _ = connection;
    const environment = await connection.join("world");
    await environment.step({});
    await cut();
    expect((await environment.reset()).first()).toBe(true);
    expect((await environment.step({})).mid()).toBe(true);
  });

  test("worldFate is `lost` if the world no longer exists, and the connection continues", async () => {
    const gone: Script = {
      answer: (request) =>
        request.case === "joinWorld" && request.value.worldName === "world"
          ? status("NOT_FOUND", "no such world")
          : undefined,
    };
    const { connection, servers, cut } = await reconnecting([silentSteps, gone]);
    await using _ = connection;
    const environment = await connection.join("world");
    await environment.step({});
    await environment.step({});
    const open = caught(environment.step({}));
    await servers[0]?.received(4);
    await cut();
    const error = await open;
    expect(worldFate(error)).toBe("lost");
    await expect(environment.step({})).rejects.toBe(error);
    const other = await connection.join("another");
    expect((await other.step({})).first()).toBe(true);
  });

  test("attempts continue while the server is down or has not noticed the lost agent", async () => {
    const full: Script = {
      answer: (request) =>
        request.case === "joinWorld"
          ? status("RESOURCE_EXHAUSTED", "the world is full")
          : undefined,
    };
    const { connection, statuses, cut } = await reconnecting([long, "down", full, long]);
    await using _ = connection;
    const environment = await connection.join("world");
    await cut();
    expect((await environment.reset()).first()).toBe(true);
    expect(statuses.map(({ kind }) => kind)).toEqual([
      "reconnecting",
      "reconnecting",
      "reconnecting",
      "reconnected",
    ]);
    expect(statuses[2]).toMatchObject({ attempt: 3, error: { code: "RESOURCE_EXHAUSTED" } });
  });

  test("the connection tries 45 times by default", async () => {
    const { connection, statuses, cut } = await reconnecting([long, "down"], "default");
    await cut();
    await connection.closed;
    expect(statuses.filter(({ kind }) => kind === "reconnecting")).toHaveLength(45);
  });

  test("after maxAttempts all calls reject, and the connection is closed", async () => {
    const { connection, statuses, cut } = await reconnecting([silentSteps, "down"], 2);
    const environment = await connection.join("world");
    await environment.step({});
    await environment.step({});
    const open = caught(environment.step({}));
    await cut();
    const waiting = caught(connection.createWorld());
    const error = await open;
    expect(worldFate(error)).toBe("unknown");
    expect(await connection.closed).toBe(error);
    expect(await waiting).toBeInstanceOf(DmEnvRpcError);
    await expect(environment.step({})).rejects.toBe(error);
    expect(statuses.map(({ kind }) => kind)).toEqual(["reconnecting", "reconnecting", "closed"]);
    await connection.close();
  });

  test("a request made during a reconnect waits until the connection is re-established", async () => {
    const { connection, cut } = await reconnecting([long, long]);
    await using _ = connection;
    await cut();
    await expect(connection.createWorld()).resolves.toBe("world");
  });

  test("close ends the attempts, and a closed environment is not joined again", async () => {
    const { connection, cut } = await reconnecting([long, "down"], 1_000_000);
    const environment = await connection.join("world");
    await cut();
    const step = caught(environment.step({}));
    await connection.close();
    expect(await step).toBeInstanceOf(DmEnvRpcError);

    const again = await reconnecting([long, long]);
    const left = await again.connection.join("world");
    await left.close();
    await again.cut();
    while (again.statuses.length < 2) {
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(again.servers[1]?.requests).toEqual([]);
    await again.connection.close();
  });

  test("a connection whose server violates the protocol is not reconnected", async () => {
    const { connection, statuses } = await reconnecting([
      {
        answer: () => ({
          case: "leaveWorld",
          value: { $typeName: "dm_env_rpc.v1.LeaveWorldResponse" },
        }),
      },
    ]);
    await expect(connection.createWorld()).rejects.toMatchObject({ code: "INTERNAL" });
    await connection.close();
    expect(statuses).toEqual([]);
  });

  test("a reset rejects with the old and the new spec if the specs changed during a reconnect", async () => {
    const { connection, cut } = await reconnecting([
      long,
      { observations: { tick: t.int32([2]) } },
    ]);
    await using _ = connection;
    const environment = await connection.join("world");
    await cut();
    await expect(environment.reset()).rejects.toMatchObject({ reason: "spec", specName: "tick" });
  });
});

test("the delay before an attempt doubles, with jitter, up to maxMs", () => {
  const options = { initialMs: 100, maxMs: 1_000 };
  expect(
    [1, 2, 3, 4, 9].map((attempt) => backoffMs(attempt, { ...options, random: () => 0 })),
  ).toEqual([0, 50, 100, 200, 500]);
  expect(backoffMs(3, { ...options, random: () => 0.999 })).toBeCloseTo(199.9);
});
