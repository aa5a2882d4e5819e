// SPDX-License-Identifier: Apache-2.0
/** The sample world, to serve or to type an agent by. */
export { gridworld } from "./world.ts";
