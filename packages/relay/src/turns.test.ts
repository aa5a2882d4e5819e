// SPDX-License-Identifier: Apache-2.0
import { LoopTurns, ThreadShare, turnKeyOf } from "@dm-env-rpc/transport/internal";
import { expect, it } from "vitest";
import { Turns } from "./turns.ts";

it("pauses a source once its messages have taken too much of a turn, and resumes it in its next turn", () => {
  let nowMs = 0;
  const tasks: (() => void)[] = [];
  const share = new ThreadShare(
    new LoopTurns(
      () => nowMs,
      (task) => tasks.push(task),
    ),
  );
  const calls: string[] = [];
  const turns = new Turns(share, turnKeyOf("192.0.2.1:1"), {
    pause: () => calls.push("pause"),
    resume: () => calls.push("resume"),
  });
  const message = (): void => {
    nowMs += 0.02;
    turns.count();
  };
  let messages = 0;
  while (!turns.isWaiting) {
    message();
    messages += 1;
  }
  // A turn has a millisecond. The clock is read with every 64th message, first when the turn begins.
  expect(messages).toBe(128);
  message(); // A message that was in transit.
  expect(calls).toEqual(["pause"]);
  for (const task of tasks.splice(0)) {
    task();
  }
  expect([turns.isWaiting, calls]).toEqual([false, ["pause", "resume"]]);
});

it("lets a source forward 32 messages after a resume, even if many sources wait", () => {
  const tasks: (() => void)[] = [];
  const share = new ThreadShare(
    new LoopTurns(
      () => 0,
      (task) => tasks.push(task),
    ),
    2,
  );
  const turnsOf = (address: string) =>
    new Turns(share, turnKeyOf(address), { pause: () => {}, resume: () => {} });
  const sources = Array.from({ length: 8 }, (_, i) => turnsOf(`192.0.2.${i}:1`));
  share.count();
  share.count();
  for (const source of sources) {
    source.count();
    expect(source.isWaiting).toBe(true);
  }
  for (const task of tasks.splice(0)) {
    task();
  }
  const resumed = sources.filter(({ isWaiting }) => !isWaiting);
  expect(resumed).toHaveLength(2);
  for (const source of resumed) {
    for (let message = 0; message < 32; message++) {
      source.count();
      expect(source.isWaiting).toBe(false);
    }
    source.count();
    expect(source.isWaiting).toBe(true);
  }
});
