// SPDX-License-Identifier: Apache-2.0
import { setImmediate as turn } from "node:timers/promises";
import { expect, test } from "vitest";
import { openStream } from "./open-stream.ts";
import { answered, answerOf, named, nameOf } from "./testing/messages.ts";
import { record } from "./testing/recorder.ts";
import { serving } from "./testing/serving.ts";
import { createTurnBatch, type TurnBatch } from "./turn-batch.ts";

/** Brings so many small chunks in each of some turns; how many of them were delivered at once, by turn. */
async function atOnce(batch: TurnBatch, chunks: number, turns: number): Promise<number[]> {
  const found: number[] = [];
  for (let i = 0; i < turns; i++) {
    let delivered = 0;
    let late = 0;
    for (let chunk = 0; chunk < chunks; chunk++) {
      const deliver = (): void => {
        late += 1;
      };
      if (!batch.takes(100, deliver)) delivered += 1;
    }
    expect(late).toBe(0);
    await turn();
    expect(delivered + late).toBe(chunks);
    found.push(delivered);
  }
  return found;
}

const last = (found: readonly number[]): number | undefined => found.at(-1);

test("many chunks in a turn are delivered together at its end, few at once", async () => {
  const batch = createTurnBatch();
  expect(last(await atOnce(batch, 16, 20))).toBe(0);
  expect(last(await atOnce(batch, 2, 600))).toBe(2);
  expect(last(await atOnce(batch, 16, 200))).toBe(0);
});

test("what is tried for few chunks in a turn is hardly ever in their way", async () => {
  const found = await atOnce(createTurnBatch(), 1, 3_000);
  expect(found.filter((delivered) => delivered === 0).length).toBeLessThan(150);
});

test("a large chunk never waits", async () => {
  const batch = createTurnBatch();
  await atOnce(batch, 16, 20);
  expect(batch.takes(5_000, () => {})).toBe(false);
});

test("where one of them throws, the others are delivered all the same", async () => {
  const batch = createTurnBatch();
  await atOnce(batch, 16, 20);
  const thrown = new Promise<unknown>((resolve) => {
    const before = process.listeners("uncaughtException");
    process.removeAllListeners("uncaughtException");
    process.once("uncaughtException", (error) => {
      for (const listener of before) process.on("uncaughtException", listener);
      resolve(error);
    });
  });
  const error = new Error("from a receiver");
  const delivered: number[] = [];
  for (let i = 0; i < 4; i++) {
    batch.takes(100, () => {
      delivered.push(i);
      if (i === 1) throw error;
    });
  }
  expect(await thrown).toBe(error);
  await turn();
  expect(delivered).toEqual([0, 1, 2, 3]);
});

test("messages of many streams at once come whole and in order", async () => {
  const streams = 48;
  const messages = 60;
  await using server = await serving();
  const batch = createTurnBatch();
  const clients = await Promise.all(
    Array.from({ length: streams }, async (_, stream) => {
      const client = await openStream(server.address, { batch });
      const served = await server.next();
      record(served, {
        onMessage: (request) => served.send(answered(nameOf(request))),
        onEnd: () => served.end(),
      });
      let sent = 0;
      const send = (): void => {
        if (sent < messages) client.send(named(`${stream}/${sent}`));
        sent += 1;
      };
      const seen = record(client, { onMessage: send });
      return { client, stream, seen, send };
    }),
  );
  for (const { send } of clients) send();
  for (const { client, stream, seen } of clients) {
    await seen.seen("message", messages);
    const names = Array.from({ length: messages }, (_, i) => `${stream}/${i}`);
    expect(seen.messages.map(answerOf)).toEqual(names);
    await client.close();
  }
});
