// SPDX-License-Identifier: Apache-2.0

/** The most that an agent's level, or a level in the settings, may be: the sum of three, the most a food is drawn with, still fits a uint8. */
export const maxLevel = 85;

/** The most rows or columns of a board: its picture, 8 pixels a cell, stays below 4 MiB. */
export const maxSide = 128;

/** The most characters of an agent's name. */
export const maxNameLength = 64;

/** The largest int32, the bound of whatever is observed as one. */
export const maxInt32 = 2_147_483_647;
