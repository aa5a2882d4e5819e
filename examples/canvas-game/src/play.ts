// SPDX-License-Identifier: Apache-2.0
/** An agent in the same page: it reads the pixels and follows the coin. */
import { connect } from "@dm-env-rpc/client";
import { memoryStreamPair } from "@dm-env-rpc/transport";
import { server } from "./world.ts";

await server.ready;
const [stream, served] = memoryStreamPair();
server.accept(served);
const connection = await connect({ stream });
const environment = await connection.join("");

/** Returns the mean column of the bright pixels in the rows from `top` to `bottom`. */
function columnOf(pixels: Uint8Array, top: number, bottom: number): number {
  let sum = 0;
  let count = 0;
  for (let at = top * 84; at < bottom * 84; at++) {
    if ((pixels[at * 3] ?? 0) > 128) {
      sum += at % 84;
      count += 1;
    }
  }
  return count === 0 ? 42 : sum / count;
}

let points = 0;
let step = await environment.reset();
while (!step.last() && points < 2) {
  const { pixels } = step.observation;
  let keys = [0, 0];
  if (typeof pixels === "object" && "data" in pixels && pixels.data instanceof Uint8Array) {
    const away = columnOf(pixels.data, 0, 76) - columnOf(pixels.data, 77, 84);
    keys = [Number(away < -2), Number(away > 2)];
  }
  step = await environment.step({ keys });
  points += step.reward ?? 0;
}
document.title = `${points} points`;
await environment.close();
