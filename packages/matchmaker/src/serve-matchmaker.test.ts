// SPDX-License-Identifier: Apache-2.0
import { constants } from "node:http2";
import { Code } from "@connectrpc/connect";
import { callUntilEnded } from "@dm-env-rpc/tests-processes";
import { expect, it, onTestFinished, vi } from "vitest";
import { serveMatchmaker } from "./serve-matchmaker.ts";
import { memoryStore } from "./store/memory-store.ts";

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

it.each([
  ["a host without authorize", { host: "0.0.0.0", allowInsecure: true }],
  ["a setting out of range", { settings: { tickMs: 0 } }],
])("a matchmaker that cannot start because of %s closes its store", async (_, options) => {
  let isClosed = false;
  const store = memoryStore();
  const close = async (): Promise<void> => {
    isClosed = true;
    await store.close();
  };
  await expect(serveMatchmaker({ ...options, store: { ...store, close } })).rejects.toThrow();
  expect(isClosed).toBe(true);
});

it("a connection with about a thousand Process streams, which a matchmaker refuses, is ended", async () => {
  // While the clock stands still, no refused stream is forgiven.
  vi.useFakeTimers({ toFake: ["performance"] });
  onTestFinished(() => void vi.useRealTimers());
  await using served = await serveMatchmaker({});
  expect(await callUntilEnded(served.url)).toMatchObject({
    goawayCode: constants.NGHTTP2_ENHANCE_YOUR_CALM,
    statuses: new Set([`${Code.Unimplemented}`]),
  });
});
