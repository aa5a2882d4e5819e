// SPDX-License-Identifier: Apache-2.0

/**
 * Returns the order of the entrants in one turn. In as many turns as there are entrants (twice as many if their number is
 * odd), each entrant takes each place equally often, and follows each other entrant equally often (a Williams design); then
 * the orders repeat. An entrant that always played at the same place, or always after the same process, might take a tenth
 * more or less CPU per step than another process of the same program.
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
