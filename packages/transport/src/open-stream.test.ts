// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { openStream } from "./open-stream.ts";
import { answerOf, named } from "./testing/messages.ts";
import { record } from "./testing/recorder.ts";
import { echo, serving } from "./testing/serving.ts";

test("requests are answered in order, then a half-close ends the call in good order", async () => {
  await using server = await serving();
  await using stream = await openStream(server.address);
  const client = record(stream);
  const accepted = await server.next();
  const served = echo(accepted);
  for (let i = 0; i < 1_000; i++) {
    stream.send(named(`world ${i}`));
  }
  stream.end();
  expect(await client.closed).toBeUndefined();
  expect(client.messages.map(answerOf)).toEqual(
    Array.from({ length: 1_000 }, (_, i) => `world ${i}`),
  );
  expect(client.events.slice(-2)).toEqual(["end", "close"]);
  expect(await served.closed).toBeUndefined();
  expect(served.events.slice(-2)).toEqual(["end", "close"]);
});
