// SPDX-License-Identifier: Apache-2.0
import { create, toBinary } from "@bufbuild/protobuf";
import { connect } from "@dm-env-rpc/client";
import { EnvironmentRequestSchema } from "@dm-env-rpc/protocol";
import { defineWorld, type ServerEvent, serve } from "@dm-env-rpc/server";
import { t } from "@dm-env-rpc/tensor-codec";
import { callGhost } from "@dm-env-rpc/tests-processes";
import { describe, expect, test } from "vitest";
import { startApp } from "./programs.ts";

describe("a peer that ends between a GOAWAY and a CONTINUATION", () => {
  test("leaves its world, and its seat is free within two intervals of pings", async () => {
    const duel = defineWorld({
      name: "duel",
      agents: { max: 1 },
      actions: { wait: t.bool() },
      observations: {},
      create: () => ({ step() {}, observe: {} }),
    });
    const pingIntervalMs = 1_000;
    // Intervals as long as those of the pings, in the thread of the server: they stand still with it.
    let intervals = 0;
    const counting = setInterval(() => {
      intervals += 1;
    }, pingIntervalMs);
    const left: number[] = [];
    await using server = await serve({
      worlds: [duel],
      premade: [{}],
      limits: { pingIntervalMs },
      onEvent: (event: ServerEvent) => {
        if (event.kind === "agent-left") {
          left.push(intervals);
        }
      },
    });
    await using connection = await connect(server.url);
    const payload = { case: "joinWorld", value: { worldName: "duel-1" } } as const;
    const join = toBinary(EnvironmentRequestSchema, create(EnvironmentRequestSchema, { payload }));
    const ghost = await callGhost(server.url, "/dm_env_rpc.v1.Environment/Process", join);
    await expect.poll(() => server.worlds()[0]?.agents).toBe(1);
    const gone = intervals;
    ghost.vanish();
    await expect(connection.join("duel-1")).rejects.toMatchObject({ code: "RESOURCE_EXHAUSTED" });
    await expect.poll(() => left.length).toBe(1);
    clearInterval(counting);
    // The intervals begin at another time than those of the pings.
    expect((left[0] ?? 0) - gone).toBeLessThanOrEqual(3);
    await using environment = await connection.join("duel-1");
    await environment.reset();
    await ghost.closed;
  });

  test("loses its connection to a matchmaker", async () => {
    await using matchmaker = startApp("matchmaker-server", ["--port", "0"]);
    const address = await matchmaker.says(/^listening on (\S+)$/m);
    const ghost = await callGhost(address, "/grpc.health.v1.Health/Watch", new Uint8Array());
    ghost.vanish();
    await ghost.closed;
  });
});
