// SPDX-License-Identifier: Apache-2.0
import { manualTime } from "@dm-env-rpc/transport/internal";
import { expect, test } from "vitest";
import { joined } from "../testing/joined.ts";
import { realtime } from "./index.ts";

test("what remoteTimeMs throws is the failure of its environment, and nobody else's", async () => {
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

test("acting or resetting after close is a clear error, and nothing is sent", async () => {
  const { environment, server } = await joined();
  const env = realtime(environment);
  await env.reset();
  await env.next();
  await env.close();
  const sent = server.requests.length;
  await expect(env.step([{}])).rejects.toThrow(/after close; make another/);
  await expect(env.reset()).rejects.toThrow(/after close; make another/);
  expect(server.requests).toHaveLength(sent);
});
