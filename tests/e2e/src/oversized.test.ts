// SPDX-License-Identifier: Apache-2.0
import { type ConnectOptions, connect } from "@dm-env-rpc/client";
import { defineWorld, freeRunning, serve } from "@dm-env-rpc/server";
import { t } from "@dm-env-rpc/tensor-codec";
import { describe, expect, it } from "vitest";

/** Returns an agent's last bytes as an observation. */
const mirror = defineWorld({
  name: "mirror",
  actions: { bytes: t.uint8([-1]) },
  observations: { bytes: t.uint8([-1]) },
  clock: freeRunning(),
  create() {
    let latest = new Uint8Array(0);
    return {
      step(actions) {
        for (const { bytes } of actions.values()) {
          latest = bytes?.data.slice() ?? latest;
        }
      },
      observe: { bytes: () => latest },
    };
  },
});

const carriers = [
  ["HTTP/2", "http:"],
  ["WebSocket", "ws:"],
] as const;

async function joined(scheme: string, options: ConnectOptions = {}) {
  const server = await serve({ worlds: [mirror], limits: { maxMessageBytes: 10_000 } });
  const connection = await connect(server.url.replace("http:", scheme), options);
  const environment = await connection.join(await connection.createWorld(), { as: mirror });
  await environment.step({});
  return {
    connection,
    environment,
    async [Symbol.asyncDispose]() {
      await connection.close();
      await server.close({ graceMs: 0 });
    },
  };
}

const picture = (bytes: number) => ({ bytes: new Uint8Array(bytes).fill(7) });

describe.each(carriers)("a message that is too large, over %s", (_name, scheme) => {
  it("behaviour 6: fails its step with the server's error, and later steps with the end of the stream", async () => {
    await using agent = await joined(scheme);
    const { connection, environment } = agent;
    const steps = [environment.step(picture(100)), environment.step(picture(100_000))];
    const later = environment.step({}).catch((error: unknown) => error);
    const [before, tooLarge] = await Promise.allSettled(steps);
    expect(before).toMatchObject({ value: { stepType: "mid" } });
    expect(tooLarge).toMatchObject({
      reason: {
        code: "RESOURCE_EXHAUSTED",
        origin: "server",
        message: expect.stringMatching(
          /^message too large: expected at most 10000 .* \(limit: maxMessageBytes\)$/,
        ),
      },
    });
    expect(await later).toMatchObject({
      code: "RESOURCE_EXHAUSTED",
      message: expect.stringMatching(/will not be answered: message too large/),
    });
    expect(await connection.closed).toMatchObject({ code: "RESOURCE_EXHAUSTED" });
  });

  it("fails the step whose response exceeds the client's limit, and names that limit", async () => {
    await using agent = await joined(scheme, { maxMessageBytes: 1_000 });
    await expect(agent.environment.step(picture(5_000))).rejects.toMatchObject({
      code: "RESOURCE_EXHAUSTED",
      origin: "client",
      message: expect.stringMatching(
        /expected at most 1000 bytes, .*request fewer observations .*raise the limit of the client/,
      ),
    });
  });
});
