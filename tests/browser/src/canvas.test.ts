// SPDX-License-Identifier: Apache-2.0
import { join } from "node:path";
import { bundle, installedBrowsers, openScript } from "@dm-env-rpc/tests-processes/browser";
import { describe, expect, test } from "vitest";

/** A canvas that shows its keys and its pointer, and an agent of it. */
const board = `
  import { connect, properties } from "@dm-env-rpc/client";
  import { createEnvironmentServer } from "@dm-env-rpc/server";
  import { canvasEnvironment } from "@dm-env-rpc/server/canvas";
  import { memoryStreamPair } from "@dm-env-rpc/transport";

  const canvas = document.createElement("canvas");
  canvas.width = 200;
  canvas.height = 100;
  document.body.append(canvas);
  const context = canvas.getContext("2d");
  const paint = (colour) => {
    context.fillStyle = colour;
    context.fillRect(0, 0, 100, 100);
  };
  const events = [];
  let pressedAt = 0;
  for (const type of ["keydown", "keyup"]) {
    window.addEventListener(type, ({ key, code, keyCode }) => {
      events.push([type, key, code, keyCode]);
      pressedAt = performance.now();
      paint(type === "keydown" ? "#ff0000" : "#0000ff");
    });
  }
  for (const type of ["pointermove", "mousedown", "pointerup", "click"]) {
    canvas.addEventListener(type, ({ clientX, clientY }) => {
      const { left, top } = canvas.getBoundingClientRect();
      events.push([type, Math.round(clientX - left), Math.round(clientY - top)]);
    });
  }
  let points = 0;
  let isOver = false;
  let resets = 0;
  const server = createEnvironmentServer({
    worlds: [canvasEnvironment({
      canvas, width: 84, height: 84, keys: ["ArrowLeft", "w"], pointer: true, fps: 100,
      reward: () => { const reward = points; points = 0; return reward; },
      done: () => isOver,
      reset: () => { resets += 1; isOver = false; paint("#00ff00"); },
    })],
    singleWorld: true,
    premade: [{}],
  });
  globalThis.playBoard = async () => {
    await server.ready;
    const [stream, served] = memoryStreamPair();
    server.accept(served);
    const connection = await connect({ stream });
    const environment = await connection.join("");
    const at = ({ observation: { pixels } }, x, y) => [...pixels.data.slice((y * 84 + x) * 3, (y * 84 + x) * 3 + 3)];
    const first = await environment.reset();
    const shape = first.observation.pixels.shape;
    const colours = [at(first, 10, 40), at(first, 80, 40)];
    const act = async (action) => { await environment.step(action); return environment.step({}); };
    colours.push(at(await act({ keys: [1, 0] }), 10, 40));
    colours.push(at(await act({ keys: [0, 0] }), 10, 40));
    await act({ pointer: [0.25, 0.5], button: 1 });
    await act({ button: 0 });
    const delays = [];
    for (let i = 0; i < 50; i++) {
      const sentAt = performance.now();
      await environment.step({ keys: [0, (i + 1) % 2] });
      delays.push(pressedAt - sentAt);
    }
    delays.sort((a, b) => a - b);
    points = 3;
    const { reward } = await environment.step({});
    await act({ keys: [1, 1] });
    isOver = true;
    let step = await environment.step({});
    while (!step.last()) step = await environment.step({});
    const afterEnd = events.slice(-2);
    await environment.step({});
    const visible = await properties(connection).get("visible");
    await connection.close();
    return { shape, colours, reward, events: events.slice(0, 6), afterEnd, resets, visible, slowest: delays.at(-1) };
  };
`;

declare global {
  var playBoard: () => Promise<Record<string, unknown>>;
}

describe.each(installedBrowsers)("a canvas as a world in $name", (browser) => {
  test("gives its pixels and rewards, and takes keys and the pointer", async () => {
    const { script } = await bundle(board, import.meta.dirname);
    await using opened = await openScript(browser, script, "playBoard");
    const { slowest, ...played } = await opened.page.evaluate(() => globalThis.playBoard());
    process.stdout.write(
      `a key pressed reaches a canvas of 100 ticks/s in ${Number(slowest).toFixed(1)} ms at most\n`,
    );
    const [green, black, red, blue] = [
      [0, 255, 0],
      [0, 0, 0],
      [255, 0, 0],
      [0, 0, 255],
    ];
    expect(played).toEqual({
      shape: [84, 84, 3],
      colours: [green, black, red, blue],
      reward: 3,
      events: [
        ["keydown", "ArrowLeft", "ArrowLeft", 37],
        ["keyup", "ArrowLeft", "ArrowLeft", 37],
        ["pointermove", 50, 50],
        ["mousedown", 50, 50],
        ["pointerup", 50, 50],
        ["click", 50, 50],
      ],
      afterEnd: [
        ["keyup", "ArrowLeft", "ArrowLeft", 37],
        ["keyup", "w", "KeyW", 87],
      ],
      resets: expect.any(Number),
      visible: true,
    });
  });

  test("lets the example's agent catch coins from its pixels", async () => {
    const play = join(import.meta.dirname, "../../../examples/canvas-game/src/play.ts");
    const { script } = await bundle(
      `import ${JSON.stringify(play)}; globalThis.hasPlayed = true;`,
      import.meta.dirname,
    );
    await using opened = await openScript(browser, script, "hasPlayed");
    expect(await opened.page.title()).toMatch(/^[2-9] points$/);
  });
});
