// SPDX-License-Identifier: Apache-2.0
import { LoopTurns, manualTime, ThreadShare, turnKeyOf } from "@dm-env-rpc/transport/internal";
import { expect, test } from "vitest";
import { defineWorld } from "../definition/world.ts";
import { noCounts } from "../engine/world-counts.ts";
import { type LiveFrame, LiveWorld } from "./live-world.ts";

const painted = defineWorld({
  name: "painted",
  actions: {},
  observations: {},
  create: () => ({ step() {}, observe: {} }),
});

/** Watches worlds whose pictures take 10 ms each; the test runs the turns of the event loop. */
function setUp() {
  const time = manualTime();
  let nowMs = 0;
  const turns: (() => void)[] = [];
  const share = new ThreadShare(
    new LoopTurns(
      () => nowMs,
      (task) => turns.push(task),
    ),
  );
  const drawn: string[] = [];
  const worlds = new Map<string, LiveWorld>();
  const worldOf = (name: string): LiveWorld => {
    const author = {
      step() {},
      observe: {},
      picture: () => {
        nowMs += 10;
        drawn.push(name);
        return "<svg/>";
      },
    };
    return new LiveWorld({
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
  };
  const frames: Promise<LiveFrame | undefined>[] = [];
  return {
    time,
    drawn,
    frames,
    /** Adds a request of an agent that takes as long as a picture. */
    request(address: string): void {
      share.wait(turnKeyOf(address), () => {
        nowMs += 10;
        share.count();
        drawn.push("step");
      });
    },
    watch(name: string, network: string): void {
      const live = worlds.get(name) ?? worldOf(name);
      worlds.set(name, live);
      frames.push(live.watch(new AbortController().signal, network)(0));
    },
    turn(): void {
      for (const task of turns.splice(0)) {
        task();
      }
    },
  };
}

async function allHavePictures(frames: readonly Promise<LiveFrame | undefined>[]): Promise<void> {
  for (const frame of frames) {
    expect((await frame)?.message.view).toMatchObject({ case: "picture" });
  }
}

test("of pictures that take long, one is drawn in each turn, and networks take turns", async () => {
  const { watch, time, drawn, turn, frames } = setUp();
  watch("a", "192.0.2.1");
  watch("b", "192.0.2.1");
  watch("c", "192.0.2.1");
  watch("d", "192.0.2.2");
  time.advance(0);
  expect(drawn).toEqual(["a"]);
  for (const expected of [
    ["a", "b"],
    ["a", "b", "d"],
    ["a", "b", "d", "c"],
  ]) {
    turn();
    expect(drawn).toEqual(expected);
  }
  await allHavePictures(frames);
});

test("pictures of different worlds do not share a turn, however busy the agents of their network are", async () => {
  const { watch, request, time, drawn, turn, frames } = setUp();
  for (const name of ["a", "b", "c"]) {
    watch(name, "192.0.2.1");
  }
  time.advance(0);
  for (let i = 0; i < 3; i++) {
    request("192.0.2.1:1");
  }
  for (let i = 0; i < 5; i++) {
    turn();
  }
  expect(drawn).toEqual(["a", "b", "c", "step", "step", "step"]);
  await allHavePictures(frames);
});

test.each([
  ["from the start", true],
  ["later", false],
])(
  "a viewer of a world that another network watches with many others waits only for its own turn: %s",
  async (_when, isFromStart) => {
    const { watch, time, drawn, turn, frames } = setUp();
    for (const name of ["a", "b", "c", "shared"]) {
      watch(name, "192.0.2.1");
    }
    if (isFromStart) {
      watch("shared", "192.0.2.2");
    }
    time.advance(0);
    expect(drawn).toEqual(["a"]);
    if (!isFromStart) {
      watch("shared", "192.0.2.2");
    }
    for (let i = 0; i < 5; i++) {
      turn();
    }
    expect(drawn).toEqual(["a", "b", "shared", "c"]);
    await allHavePictures(frames);
  },
);
