// SPDX-License-Identifier: Apache-2.0

/** Red, green and blue, each 0…255. */
export type Colour = readonly [red: number, green: number, blue: number];

/** The ground of an empty cell. */
export const ground: Colour = [38, 46, 41];

/** The thin line between cells, and the ground around an agent or food. */
export const groundEdge: Colour = [29, 35, 31];

/** The ground around the agent that the picture is for. */
export const highlight: Colour = [255, 221, 87];

/** An apple. */
export const foodBody: Colour = [196, 52, 48];

/** An apple's leaf. */
export const foodLeaf: Colour = [126, 200, 80];

/** The writing on agents and food. */
export const ink: Colour = [255, 255, 255];

/** The writing on empty ground. */
export const faintInk: Colour = [96, 110, 100];

const agentBodies: readonly Colour[] = [
  [38, 110, 214],
  [140, 74, 196],
  [0, 128, 128],
  [176, 98, 10],
  [198, 50, 128],
  [84, 124, 24],
  [92, 92, 190],
  [104, 104, 112],
];

/** Returns the colour of the agent in a slot; eight colours, repeated. */
export function agentColour(slot: number): Colour {
  return agentBodies[slot % agentBodies.length] ?? ink;
}
