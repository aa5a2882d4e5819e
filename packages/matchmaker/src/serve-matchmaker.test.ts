// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import { serveMatchmaker } from "./serve-matchmaker.ts";

it("a host other than loopback requires TLS or allowInsecure, and authorize", async () => {
  const host = "0.0.0.0";
  const authorize = () => ["agent"] as const;
  await expect(serveMatchmaker({ host, authorize })).rejects.toThrow(
    /^host: expected a loopback address for a matchmaker without TLS, received "0\.0\.0\.0"/,
  );
  await expect(serveMatchmaker({ host, allowInsecure: true })).rejects.toThrow(
    /^host: expected a loopback address for a matchmaker without authorize, received "0\.0\.0\.0"/,
  );
  await using served = await serveMatchmaker({ host, authorize, allowInsecure: true });
  expect(served.host).toBe(host);
});
