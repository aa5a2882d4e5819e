// SPDX-License-Identifier: Apache-2.0
import { type Effort, measure } from "./measure.ts";
import { stepRaces } from "./step-rows.ts";
import { type Goal, type Race, tensorRaces } from "./tensor-rows.ts";

/** One row of the codec's table, in microseconds, with our ratios to the goals. */
export interface CodecRow {
  readonly what: string;
  readonly generated: number | undefined;
  readonly protobufjs: number | undefined;
  readonly ours: number | undefined;
  readonly memcpy: number | undefined;
  readonly goals: readonly CodecGoal[];
}

/** A goal with our measured speed. */
export interface CodecGoal extends Goal {
  readonly reached: number;
  readonly met: boolean;
}

// Many short repetitions: one that is shorter than a time slice is seldom interrupted.
const quickEffort: Effort = { repetitions: 9, batchMs: 1 };
const thoroughEffort: Effort = { repetitions: 61, batchMs: 3 };

/**
 * Measures the tensor codec against the generated code, protobufjs's compiled
 * functions (those of `pbjs -t static`) and a memcpy into a fresh array: microseconds,
 * medians of interleaved repetitions.
 */
export async function benchCodec(options: {
  readonly quick: boolean;
}): Promise<{ readonly title: string; readonly rows: readonly CodecRow[] }> {
  const effort = options.quick ? quickEffort : thoroughEffort;
  const races = [...tensorRaces(), ...stepRaces()];
  const times = measure(
    races.map(({ contestants }) => contestants),
    effort,
  );
  return {
    title: `Codec, µs a message (medians of ${effort.repetitions})`,
    rows: races.map((race, index) => rowOf(race, times[index] ?? new Map())),
  };
}

/** The table as text. */
export function formatCodec({ title, rows }: Awaited<ReturnType<typeof benchCodec>>): string {
  const head = ["", "generated", "protobufjs", "ours", "memcpy", "goals"];
  const body = rows.map((row) => [
    row.what,
    microseconds(row.generated),
    microseconds(row.protobufjs),
    microseconds(row.ours),
    microseconds(row.memcpy),
    row.goals
      .map(
        (goal) =>
          `${goal.met ? "✓" : "✗"} ${goal.reached.toFixed(2)}× ${goal.against} (≥ ${goal.speed.toFixed(2)})`,
      )
      .join(", "),
  ]);
  const table = [head, ...body];
  const widths = head.map((_, column) => Math.max(...table.map((row) => row[column]?.length ?? 0)));
  const lines = table.map((row) =>
    row
      .map((cell, column) =>
        column === 0 || column === 5
          ? cell.padEnd(widths[column] ?? 0)
          : cell.padStart(widths[column] ?? 0),
      )
      .join("  ")
      .trimEnd(),
  );
  return [title, ...lines].join("\n");
}

function rowOf(race: Race, times: ReadonlyMap<string, number>): CodecRow {
  const ours = times.get("ours") as number;
  return {
    what: race.what,
    generated: times.get("generated"),
    protobufjs: times.get("protobufjs"),
    ours,
    memcpy: times.get("memcpy"),
    goals: race.goals.map((goal) => {
      const reached = (times.get(goal.against) as number) / ours;
      return { ...goal, reached, met: reached >= goal.speed };
    }),
  };
}

function microseconds(value: number | undefined): string {
  if (value === undefined) {
    return "";
  }
  return value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2);
}
