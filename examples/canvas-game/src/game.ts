// SPDX-License-Identifier: Apache-2.0
/**
 * A game without code for agents: the arrow keys move a paddle that catches coins. Each coin is a point; the third miss
 * ends the game.
 */
const canvas = document.createElement("canvas");
canvas.width = 320;
canvas.height = 240;
document.body.append(canvas);
const context = canvas.getContext("2d") ?? fail();

const held = new Set<string>();
document.addEventListener("keydown", ({ key }) => held.add(key));
document.addEventListener("keyup", ({ key }) => held.delete(key));

const game = { canvas, points: 0, misses: 0, paddle: 160, coin: { x: 160, y: 0 }, restart };

function restart(): void {
  Object.assign(game, { points: 0, misses: 0, paddle: 160, coin: { x: 160, y: 0 } });
}

function frame(): void {
  const { coin } = game;
  if (game.misses < 3) {
    const direction = Number(held.has("ArrowRight")) - Number(held.has("ArrowLeft"));
    game.paddle = Math.max(30, Math.min(290, game.paddle + 6 * direction));
    coin.y += 4;
    if (coin.y > 220) {
      const isCaught = Math.abs(coin.x - game.paddle) < 40;
      game[isCaught ? "points" : "misses"] += 1;
      game.coin = { x: 30 + Math.random() * 260, y: 0 };
    }
  }
  context.fillStyle = "#102040";
  context.fillRect(0, 0, 320, 240);
  context.fillStyle = "#ffd700";
  context.fillRect(coin.x - 8, coin.y - 8, 16, 16);
  context.fillStyle = "#ffffff";
  context.fillRect(game.paddle - 30, 224, 60, 8);
  requestAnimationFrame(frame);
}

function fail(): never {
  throw new Error("this browser has no 2D canvas");
}

frame();

export { game };
