// SPDX-License-Identifier: Apache-2.0
import type { ClientHttp2Stream } from "node:http2";
import { expect, it } from "vitest";
import { serveSilence } from "../../testing/silent-server.ts";
import { SurvivingSessions } from "./surviving-sessions.ts";

it("a caller that retries as soon as a ping is unanswered causes no uncaught error", async () => {
  await using silent = await serveSilence("nothing");
  const life = { pingIntervalMs: 20, pingTimeoutMs: 20 };
  const sessions = new SurvivingSessions(`http://${silent.address}`, life);
  const call = (): Promise<ClientHttp2Stream> => sessions.request("POST", "/", {}, {});
  const failure = (stream: ClientHttp2Stream): Promise<Error> =>
    new Promise((resolve) => stream.once("error", resolve));
  const first = await call();
  const closed = new Promise<void>((resolve) => first.session?.once("close", resolve));
  const error = await failure(first);
  expect(error.message).toMatch(/PING timed out/);
  const second = await call();
  expect(second.session).not.toBe(first.session);
  await Promise.all([closed, failure(second)]);
});
