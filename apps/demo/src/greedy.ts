// SPDX-License-Identifier: Apache-2.0
import type { DynamicObservation, TimeStep } from "@dm-env-rpc/client";
import { foragingActions } from "@dm-env-rpc/gridworld-server";
import type { Policy, Random } from "@dm-env-rpc/random-agent";
import { boardSettings, readBoard, slotOf } from "./board.ts";

/** Fraction of its actions that a greedy agent chooses at random, so that two agents do not block each other forever. */
const randomPart = 0.1;

const steps = [
  { move: foragingActions.north, rows: -1, cols: 0 },
  { move: foragingActions.south, rows: 1, cols: 0 },
  { move: foragingActions.west, rows: 0, cols: -1 },
  { move: foragingActions.east, rows: 0, cols: 1 },
] as const;

/**
 * Makes a policy for the demo's board that walks to the nearest food and loads it. It prefers food that the agent can
 * load by itself; beside other food it waits for help.
 */
export function greedyPolicy(random: Random): Policy {
  return (step) => ({ move: random() < randomPart ? anyMove(random) : greedyMove(step) });
}

/** Returns the action `move` that a greedy agent takes after a time step. */
export function greedyMove(step: TimeStep<DynamicObservation>): number {
  const { board, foragers } = readBoard(step, new Map());
  const own = foragers[slotOf(step)];
  const food = board.food.filter(({ level }) => level > 0);
  if (own === undefined || food.length === 0) {
    return foragingActions.none;
  }
  const light = food.filter(({ level }) => level <= own.level);
  const targets = new Set((light.length > 0 ? light : food).map(cellOf));
  const blocked = new Set([...food, ...foragers.filter(({ onBoard }) => onBoard)].map(cellOf));
  return moveTowards(own, targets, blocked);
}

/** Returns the first move of a shortest path to a cell beside a target, or `load` if the agent is beside one. */
function moveTowards(
  from: Cell,
  targets: ReadonlySet<number>,
  blocked: ReadonlySet<number>,
): number {
  const seen = new Set([cellOf(from)]);
  let frontier: { readonly cell: Cell; readonly first: number | undefined }[] = [
    { cell: from, first: undefined },
  ];
  while (frontier.length > 0) {
    const next: typeof frontier = [];
    for (const { cell, first } of frontier) {
      for (const { move, cell: beside } of neighbours(cell)) {
        const key = cellOf(beside);
        if (targets.has(key)) {
          return first ?? foragingActions.load;
        }
        if (!seen.has(key) && !blocked.has(key)) {
          seen.add(key);
          next.push({ cell: beside, first: first ?? move });
        }
      }
    }
    frontier = next;
  }
  return foragingActions.none;
}

interface Cell {
  readonly row: number;
  readonly col: number;
}

function neighbours({ row, col }: Cell) {
  return steps
    .map(({ move, rows, cols }) => ({ move, cell: { row: row + rows, col: col + cols } }))
    .filter(
      ({ cell }) =>
        cell.row >= 0 &&
        cell.row < boardSettings.height &&
        cell.col >= 0 &&
        cell.col < boardSettings.width,
    );
}

function cellOf({ row, col }: Cell): number {
  return row * boardSettings.width + col;
}

function anyMove(random: Random): number {
  return foragingActions.none + Math.floor(random() * (foragingActions.load + 1));
}
