// SPDX-License-Identifier: Apache-2.0
import { connect } from "@dm-env-rpc/client";
import { expect, test } from "vitest";
import { gridworldServer } from "./programs.ts";

test.each(["http", "ws"])(
  "a client over %s learns the fate of each of its hundreds of requests when the server is drained",
  async (scheme) => {
    await using server = await gridworldServer("--grace-ms", "120000");
    await using connection = await connect(`${scheme}://${server.address}`, { maxInFlight: 400 });
    await using environment = await connection.join(await connection.createWorld());
    await environment.reset();
    const errors: unknown[] = [];
    let answered = 0;
    const stepOn = async (): Promise<void> => {
      while (errors.length === 0) {
        await environment.stepMany([{ move: 0 }]);
        answered += 1;
      }
    };
    const agents = Array.from({ length: 400 }, () => stepOn().catch((error) => errors.push(error)));
    while (answered < 1_000) {
      await new Promise((resolve) => setImmediate(resolve));
    }
    server.process.kill("SIGTERM");
    await Promise.all(agents);
    expect(await server.ended).toBe(0);
    for (const error of errors) {
      expect(error).toMatchObject({ code: "UNAVAILABLE" });
      expect(String(error)).toContain("the server is shutting down");
    }
    expect(errors.length).toBeGreaterThan(0);
  },
);
