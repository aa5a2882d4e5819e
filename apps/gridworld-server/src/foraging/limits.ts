// SPDX-License-Identifier: Apache-2.0

/**
 * Maximum level of an agent, also in the settings. The maximum level of drawn food is the sum of
 * three agents' levels, which still fits a uint8.
 */
export const maxLevel = 85;

/** Maximum rows or columns of a board, so that its picture, with 8 pixels per cell, stays below 4 MiB. */
export const maxSide = 128;

/** Longest text of a layout, in characters: four times those of the largest board, for indentation. */
export const maxLayoutLength = 4 * maxSide * maxSide;

/** Longest name of an agent, in characters. */
export const maxNameLength = 64;

/** Largest int32, the bound of every int32 observation. */
export const maxInt32 = 2_147_483_647;
