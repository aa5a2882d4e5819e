// SPDX-License-Identifier: Apache-2.0
/** The game as an environment: its canvas, keys, reward and end. */
import { createEnvironmentServer } from "@dm-env-rpc/server";
import { canvasEnvironment } from "@dm-env-rpc/server/canvas";
import { game } from "./game.ts";

let rewarded = 0;

const coins = canvasEnvironment({
  name: "coins",
  canvas: game.canvas,
  width: 84,
  height: 84,
  keys: ["ArrowLeft", "ArrowRight"],
  reward() {
    const reward = game.points - rewarded;
    rewarded = game.points;
    return reward;
  },
  done: () => game.misses === 3,
  reset() {
    game.restart();
    rewarded = 0;
  },
});

export const server = createEnvironmentServer({
  worlds: [coins],
  singleWorld: true,
  premade: [{}],
});
