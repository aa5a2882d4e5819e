// SPDX-License-Identifier: Apache-2.0
import { createClient, createContextValues } from "@connectrpc/connect";
import {
  createConnectTransport,
  createGrpcTransport,
  createGrpcWebTransport,
} from "@connectrpc/connect-node";
import { Health, HealthCheckResponse_ServingStatus } from "@dm-env-rpc/protocol/health";
import { describe, expect, it } from "vitest";
import { networkPeer, serving } from "../../testing/network.ts";
import { tally } from "../../testing/tally.ts";
import { defineWorld } from "../definition/world.ts";
import { createHealthBoard } from "./health.ts";
import type { Server } from "./serve.ts";

const { SERVING, NOT_SERVING, SERVICE_UNKNOWN } = HealthCheckResponse_ServingStatus;

function healthOf(server: Server) {
  return createClient(Health, createGrpcTransport({ baseUrl: server.url }));
}

const other = defineWorld({
  name: "other",
  actions: {},
  observations: {},
  create: () => ({ step() {}, observe: {} }),
});

const transports = [
  ["gRPC", (baseUrl: string) => createGrpcTransport({ baseUrl })],
  ["gRPC in JSON", (baseUrl: string) => createGrpcTransport({ baseUrl, useBinaryFormat: false })],
  ["gRPC-Web", (baseUrl: string) => createGrpcWebTransport({ baseUrl, httpVersion: "1.1" })],
  [
    "gRPC-Web over HTTP/2",
    (baseUrl: string) => createGrpcWebTransport({ baseUrl, httpVersion: "2" }),
  ],
  ["Connect", (baseUrl: string) => createConnectTransport({ baseUrl, httpVersion: "1.1" })],
  [
    "Connect over HTTP/2",
    (baseUrl: string) => createConnectTransport({ baseUrl, httpVersion: "2" }),
  ],
] as const;

describe.each([
  ...transports,
  [
    "gRPC with a deadline",
    (baseUrl: string) => createGrpcTransport({ baseUrl, defaultTimeoutMs: 600_000 }),
  ],
] as const)("health over %s", (_name, transportOf) => {
  it("is checked and watched", async () => {
    await using server = await serving({ worlds: [tally()] });
    const health = createClient(Health, transportOf(server.url));
    expect((await health.check({ service: "tally" })).status).toBe(SERVING);
    await expect(health.check({ service: "a\nb %" })).rejects.toThrow(
      /not_found[\s\S]*unknown service "a\nb %"/,
    );
    const watched = health.watch({ service: "tally" })[Symbol.asyncIterator]();
    expect((await watched.next()).value?.status).toBe(SERVING);
    const closed = server.close({ graceMs: 30_000 });
    expect((await watched.next()).value?.status).toBe(NOT_SERVING);
    expect((await watched.next()).done).toBe(true);
    await closed;
  });
});

it.each(transports)("a Watch over %s ends at its deadline", async (_name, transportOf) => {
  await using server = await serving({ worlds: [tally()] });
  const health = createClient(Health, transportOf(server.url));
  // If the machine pauses, a deadline can pass before the first status arrives; the next deadline is longer.
  let first: number | undefined;
  for (let deadlineMs = 50; first === undefined; deadlineMs *= 2) {
    // As headers, so that only the server watches the deadline.
    const headers = { "grpc-timeout": `${deadlineMs}m`, "connect-timeout-ms": `${deadlineMs}` };
    const watched = health.watch({ service: "" }, { headers })[Symbol.asyncIterator]();
    const expired = (error: unknown) => {
      expect(String(error)).toContain("deadline_exceeded");
      return undefined;
    };
    first = await watched.next().then(({ value }) => value?.status, expired);
    if (first !== undefined) {
      expect(first).toBe(SERVING);
      await expect(watched.next()).rejects.toThrow("deadline_exceeded");
    }
  }
});

it.each(["Check", "Watch"])("%s refuses a malformed request", async (method) => {
  await using server = await serving({ worlds: [tally()] });
  const response = await fetch(`${server.url}/grpc.health.v1.Health/${method}`, {
    method: "POST",
    headers: { "content-type": "application/grpc-web+proto" },
    body: Uint8Array.of(0, 0, 0, 0, 1, 0xff),
  });
  const status = decodeURIComponent(await response.text());
  expect(status).toMatch(/grpc-status: 3[\s\S]*expected a HealthCheckRequest/);
});

describe("health", () => {
  it("is reported for the server, the service and each kind of world", async () => {
    await using server = await serving({ worlds: [tally(), other] });
    const health = healthOf(server);
    for (const service of ["", "dm_env_rpc.v1.Environment", "tally", "other"]) {
      expect((await health.check({ service })).status).toBe(SERVING);
    }
    await expect(health.check({ service: "chess" })).rejects.toThrow(/not_found.*"chess".*"tally"/);
    const { statuses } = await health.list({});
    expect(Object.keys(statuses).sort()).toEqual([
      "",
      "dm_env_rpc.v1.Environment",
      "other",
      "tally",
    ]);
  });

  it.each(["597H", "99999999S"])("is watched with a deadline of %s", async (timeout) => {
    await using server = await serving({ worlds: [tally()] });
    const headers = { "grpc-timeout": timeout };
    const watched = healthOf(server).watch({ service: "" }, { headers })[Symbol.asyncIterator]();
    expect((await watched.next()).value?.status).toBe(SERVING);
    const next = watched.next();
    await healthOf(server).check({ service: "" });
    const closed = server.close({ graceMs: 30_000 });
    expect((await next).value?.status).toBe(NOT_SERVING);
    expect((await watched.next()).done).toBe(true);
    await closed;
  });

  it("is watched until the server closes, and can be checked meanwhile", async () => {
    await using server = await serving({ worlds: [tally()] });
    await using agent = await networkPeer(server);
    await agent.join(await agent.createWorld());
    await agent.step();
    const health = healthOf(server);
    const [known, unknown] = ["tally", "chess"].map((service) =>
      health.watch({ service })[Symbol.asyncIterator](),
    );
    expect((await known?.next())?.value.status).toBe(SERVING);
    expect((await unknown?.next())?.value.status).toBe(SERVICE_UNKNOWN);
    const closed = server.close({ graceMs: 30_000 });
    expect((await known?.next())?.value.status).toBe(NOT_SERVING);
    expect((await health.check({ service: "" })).status).toBe(NOT_SERVING);
    expect((await agent.step()).state).toBe("INTERRUPTED");
    expect(await agent.closed).toMatchObject({ code: "UNAVAILABLE" });
    expect((await known?.next())?.done).toBe(true);
    expect((await unknown?.next())?.done).toBe(true);
    await closed;
    await expect(health.check({ service: "" })).rejects.toThrow(/unavailable|refused/i);
  });

  it("releases watchers whose calls end", async () => {
    await using server = await serving({ worlds: [tally()] });
    const controller = new AbortController();
    const statuses = healthOf(server).watch({}, { signal: controller.signal });
    const seen: number[] = [];
    await expect(
      (async () => {
        for await (const { status } of statuses) {
          seen.push(status);
          controller.abort();
        }
      })(),
    ).rejects.toThrow(/abort|cancel/i);
    expect(seen).toEqual([SERVING]);
    await server.close({ graceMs: 10_000 });
  });

  it("forgets a watcher over HTTP/2 when its call closes", async () => {
    const board = createHealthBoard([]);
    const watch = board.byteStreams.get("/grpc.health.v1.Health/Watch");
    let sent = 0;
    let close = (): void => {};
    const watching = watch?.(new Uint8Array(), {
      values: createContextValues(),
      signal: new AbortController().signal,
      onClose: (listener) => {
        close = listener;
      },
      send() {
        sent += 1;
        return true;
      },
      drained: async () => {},
    });
    board.setServing("", false);
    expect(sent).toBe(2);
    close();
    await watching;
    board.setServing("", true);
    expect(sent).toBe(2);
  });
});
