// SPDX-License-Identifier: Apache-2.0
import { manualTime, ThreadShare } from "@dm-env-rpc/transport/internal";
import { expect, test } from "vitest";
import { defineWorld } from "../definition/world.ts";
import { noCounts } from "../engine/world-counts.ts";
import { LiveWorld } from "./live-world.ts";

const painted = defineWorld({
  name: "painted",
  actions: {},
  observations: {},
  create: () => ({ step() {}, observe: {} }),
});

test("of pictures that take long, one is drawn in each turn, and networks take turns", async () => {
  const time = manualTime();
  let nowMs = 0;
  const turns: (() => void)[] = [];
  const share = new ThreadShare(
    () => nowMs,
    (task) => turns.push(task),
  );
  const drawn: string[] = [];
  const watch = (name: string, network: string) => {
    const author = {
      step() {},
      observe: {},
      picture: () => {
        nowMs += 10;
        drawn.push(name);
        return "<svg/>";
      },
    };
    const live = new LiveWorld({
      world: {
        name,
        definition: painted,
        agentCount: 0,
        counts: noCounts,
        isRunning: true,
        agents: () => [],
        look: (_agent, see) => see(author),
      },
      agent: undefined,
      sequences: () => 1,
      isGone: () => false,
      share,
      time,
      onFault: () => {},
    });
    return live.watch(new AbortController().signal, network)(0);
  };
  const frames = [
    watch("a", "192.0.2.1"),
    watch("b", "192.0.2.1"),
    watch("c", "192.0.2.1"),
    watch("d", "192.0.2.2"),
  ];
  time.advance(0);
  expect(drawn).toEqual(["a"]);
  for (const expected of [
    ["a", "b"],
    ["a", "b", "d"],
    ["a", "b", "d", "c"],
  ]) {
    for (const task of turns.splice(0)) {
      task();
    }
    expect(drawn).toEqual(expected);
  }
  for (const frame of frames) {
    expect((await frame)?.message.view).toMatchObject({ case: "picture" });
  }
});
