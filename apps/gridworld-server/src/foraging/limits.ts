// SPDX-License-Identifier: Apache-2.0

/**
 * Highest level of an agent, also in the settings: the sum of three, the highest level of drawn
 * food, still fits a uint8.
 */
export const maxLevel = 85;

/** Most rows or columns of a board: its picture, 8 pixels a cell, stays below 4 MiB. */
export const maxSide = 128;

/** Longest name of an agent, in characters. */
export const maxNameLength = 64;

/** Largest int32, the bound of every int32 observation. */
export const maxInt32 = 2_147_483_647;
