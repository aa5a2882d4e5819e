// SPDX-License-Identifier: Apache-2.0

/**
 * Returns the order of the entrants in one turn. Over all turns, each entrant takes each place equally often, and follows
 * each other entrant equally often (a Williams design). Otherwise, an entrant that always plays at the same place, or after
 * the same process, may take a tenth more or less CPU per step than another process of the same program.
 *
 * @param turn 0 for the first turn.
 */
export function turnOrder<T>(entrants: readonly T[], turn: number): T[] {
  const size = entrants.length;
  const isOdd = size % 2 === 1;
  // With an odd number of entrants, only orders and their reverse together are balanced.
  const shift = isOdd ? Math.floor(turn / 2) : turn;
  const order = entrants.map((_, place) => {
    const step = place % 2 === 1 ? (place + 1) / 2 : size - place / 2;
    return entrants[(step + shift) % size] as T;
  });
  return isOdd && turn % 2 === 1 ? order.reverse() : order;
}
