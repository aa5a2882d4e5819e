// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { createForaging } from "./foraging.ts";
import { agentColour, foodBody, ground, highlight, ink } from "./palette.ts";
import { PictureCache } from "./picture-cache.ts";
import { arrayBuffers, drawn, play, scene, seeded } from "./testing.ts";
import { emptyTile, writeLevel } from "./tiles.ts";

const layout = drawn(`
  a..2
  .c..`);

/** Returns a function from row and column of a pixel to its colour. */
function pixels(picture: Uint8Array, width: number): (y: number, x: number) => number[] {
  return (y, x) => [...picture.subarray((y * width * 8 + x) * 3, (y * width * 8 + x) * 3 + 3)];
}

describe("the picture", () => {
  it("is 8 by 8 pixels a cell", () => {
    expect(scene(layout).rgb()).toHaveLength(2 * 8 * 4 * 8 * 3);
  });

  it("shows ground, agents in the colour of their slot, and food, each with its level", () => {
    const at = pixels(scene(layout).rgb(), 4);
    expect(at(3, 8)).toEqual([...ground]);
    expect(at(3, 0)).toEqual([...agentColour(0)]);
    expect(at(8 + 3, 8)).toEqual([...agentColour(1)]);
    expect(at(3, 24)).toEqual([...foodBody]);
    expect(at(1, 3)).toEqual([...ink]);
  });

  it("puts only the agent that the picture is for on bright ground", () => {
    const world = scene(layout);
    expect(pixels(world.rgb(1), 4)(15, 15)).toEqual([...highlight]);
    expect(pixels(world.rgb(0), 4)(15, 15)).not.toEqual([...highlight]);
    expect(pixels(world.rgb(), 4)(15, 15)).not.toEqual([...highlight]);
  });

  it("shows in the corners that a second agent stands on the cell", () => {
    const at = pixels(play(scene("ab.c.1"), "east", "east", "west").rgb(), 6);
    expect(at(3, 8)).toEqual([...agentColour(1)]);
    expect(at(0, 8)).toEqual([...agentColour(0)]);
  });

  it("may be overwritten by its caller, and no longer shows agents that have left the board", () => {
    const world = scene(layout);
    const first = world.rgb();
    first.fill(0);
    expect(world.rgb()).not.toEqual(first);
    world.remove(1);
    expect(pixels(world.rgb(), 4)(8 + 3, 8)).toEqual([...ground]);
    world.leave(1);
    expect(pixels(world.rgb(0), 4)(3, 0)).toEqual([...agentColour(0)]);
    expect(() => world.rgb(1)).toThrow();
  });

  it("is drawn once for all agents between two changes, so that a tick of many does not hold up other worlds", () => {
    const world = scene(layout);
    const tiles = vi.spyOn(emptyTile, "forEach");
    onTestFinished(() => tiles.mockRestore());
    const agents = [0, 1];
    for (const agent of agents) {
      world.rgb(agent);
    }
    const columns = 4;
    expect(tiles).toHaveBeenCalledTimes(columns);
    play(world, "none", "none");
    for (const agent of agents) {
      world.rgb(agent);
    }
    expect(tiles).toHaveBeenCalledTimes(2 * columns);
  });

  it("changes when food is loaded", () => {
    const world = scene("a1.1");
    const before = world.rgb();
    expect(play(world, "load").rgb()).not.toEqual(before);
  });
});

describe("the writing of a level", () => {
  it("differs for every level to 255 and stays on the tile", () => {
    const seen = new Set<string>();
    for (let level = 1; level <= 255; level++) {
      const dots: string[] = [];
      writeLevel(level, (row, col) => {
        expect(row >= 0 && row < 8 && col >= 0 && col < 8).toBe(true);
        dots.push(`${row},${col}`);
      });
      seen.add(dots.join(" "));
    }
    expect(seen.size).toBe(255);
  });
});

describe("the text", () => {
  it("is a layout of the same board", () => {
    const world = scene(layout);
    expect(world.text()).toBe(layout);
    play(world, "south", "east");
    expect(scene(world.text()).text()).toBe(world.text());
  });

  it("has a sign for levels that the notation cannot express", () => {
    const world = createForaging<number>({ maxFoodLevel: 85, minFoodLevel: 10 }, seeded(2));
    world.join(0, { level: 27 });
    world.reset([0]);
    expect(world.text()).toMatch(/@/);
    expect(world.text().match(/\+/g)).toHaveLength(4);
  });
});

describe("a frame", () => {
  it("is plain text for a log", () => {
    const world = play(scene("a1.c", { maxSteps: 9 }), "load");
    expect(world.frame("plain")).toBe(
      [
        "step 1/9  terminated  food 0 of 1",
        "[1] .  . [3]",
        "[1] agent 1  at 0,0  reward 1",
        "[3] agent 2  at 0,3  reward 0",
        "",
      ].join("\n"),
    );
  });

  it("widens its cells for the longest level and lists agents off the board", () => {
    const world = scene("ab1");
    world.leave(0);
    world.join(0, { level: 10, name: "Ada" });
    world.reset([0]);
    expect(world.frame("plain").split("\n").slice(1)).toEqual([
      "[10]  .  (1)",
      "  -  agent 2  off the board",
      "[10] Ada  at 0,0  reward 0",
      "",
    ]);
  });

  it("has the same words in colour for a terminal", () => {
    const frame = scene("a1").frame("ansi");
    expect(frame).toContain(`48;2;${agentColour(0).join(";")}m 1 \u001b[0m`);
    expect(frame).toContain(`48;2;${foodBody.join(";")}m 1 \u001b[0m`);
    expect(frame.split("\n")[0]).toBe("step 0/50  running  food 1 of 1");
  });

  it("does not let a name control the terminal", () => {
    const world = scene("a1");
    world.leave(0);
    world.join(0, { name: "\u001b[2Jx\u202e\n\u0007" });
    world.reset([0]);
    expect(world.frame("plain")).toContain("?[2Jx???  at");
  });
});

describe("the memory of pictures", () => {
  /** Draws 50 boards, each for its agents. */
  function draw(agents: number, pictures: PictureCache) {
    return Array.from({ length: 50 }, () => {
      const board = createForaging<number>({ height: 32, width: 32 }, seeded(1), pictures);
      const names = Array.from({ length: agents }, (_, agent) => agent);
      for (const agent of names) {
        board.join(agent);
      }
      board.reset(names);
      for (const agent of names) {
        board.rgb(agent);
      }
      return board;
    });
  }

  /** Bytes of the pictures of all boards. */
  const pictures = 50 * 32 * 8 * 32 * 8 * 3;

  it("is kept for agents that share a board", () => {
    const cache = new PictureCache(pictures);
    draw(2, cache);
    expect(cache.bytes).toBe(pictures);
  });

  it("is not kept for an agent that plays alone", async () => {
    const cache = new PictureCache(pictures);
    const before = arrayBuffers();
    const boards = draw(1, cache);
    expect(cache.bytes).toBe(0);
    // V8 frees array buffers in another thread, later than the collection.
    await expect.poll(() => arrayBuffers() - before).toBeLessThan(pictures / 2);
    expect(boards).toHaveLength(50);
  });

  it("is bounded for the boards that share a cache", async () => {
    const cache = new PictureCache(pictures / 10);
    const before = arrayBuffers();
    const boards = draw(2, cache);
    expect(cache.bytes).toBe(pictures / 10);
    await expect.poll(() => arrayBuffers() - before).toBeLessThan(pictures / 5);
    expect(boards[0]?.rgb(0)).toEqual(boards[49]?.rgb(0));
  });
});
