// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { openStream } from "../open/open-stream.ts";
import { answered, named } from "../testing/messages.ts";
import { record } from "../testing/recorder.ts";
import { serving } from "../testing/serving.ts";

/** Sends requests at once. Returns, for each of them, the turn of the event loop in which the server received it. */
async function turnsOf(requests: number, answers: boolean): Promise<number[]> {
  await using server = await serving();
  const client = await openStream(server.address);
  const seen = record(client);
  const served = await server.next();
  let turn = 0;
  const count = (): void => {
    turn += 1;
    if (turns.length < requests) {
      setImmediate(count);
    }
  };
  const turns: number[] = [];
  setImmediate(count);
  const received = record(served, {
    onMessage() {
      turns.push(turn);
      if (answers) {
        served.send(answered("here"));
      }
    },
    onEnd: () => served.end(),
  });
  for (let i = 0; i < requests; i++) {
    client.send(named("there"));
  }
  await received.seen("message", requests);
  if (answers) {
    await seen.seen("message", requests);
  }
  await client.close();
  return turns;
}

const sizes = (turns: readonly number[]): number[] =>
  [...new Set(turns)].map((turn) => turns.filter((other) => other === turn).length);

test("the first of many requests are answered before the last requests are delivered", async () => {
  expect(sizes(await turnsOf(80, true))).toEqual([32, 32, 16]);
});

test("requests that the server does not answer are delivered in one turn, up to 256 of them", async () => {
  expect(sizes(await turnsOf(80, false))).toEqual([80]);
  expect(sizes(await turnsOf(600, false))).toEqual([256, 256, 88]);
});
