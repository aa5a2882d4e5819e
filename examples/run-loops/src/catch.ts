import { defineEnvironment } from "@dm-env-rpc/server";
import { t, tensor } from "@dm-env-rpc/tensor-codec";

const rows = 10;
const columns = 5;

/** Catch (bsuite): a ball falls down a board, and a paddle at the bottom must be under it. */
export const catching = defineEnvironment({
  name: "catch",
  actions: { move: t.discrete(3, "int32") },
  observations: { board: t.float32([rows, columns], { min: 0, max: 1 }) },
  create({ random }) {
    let ball = { row: 0, column: 0 };
    let paddle = 0;
    const observe = () => {
      const board = new Float32Array(rows * columns);
      board[ball.row * columns + ball.column] = 1;
      board[(rows - 1) * columns + paddle] = 1;
      return { board: tensor("float32", [rows, columns], board) };
    };
    return {
      reset() {
        ball = { row: 0, column: random.integer(0, columns - 1) };
        paddle = Math.floor(columns / 2);
        return observe();
      },
      step({ move = 1 }) {
        paddle = Math.min(columns - 1, Math.max(0, paddle + move - 1));
        ball = { ...ball, row: ball.row + 1 };
        if (ball.row < rows - 1) {
          return { observation: observe() };
        }
        const reward = ball.column === paddle ? 1 : -1;
        return { observation: observe(), reward, state: "terminated" };
      },
    };
  },
});
