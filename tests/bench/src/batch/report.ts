// SPDX-License-Identifier: Apache-2.0
import type { Verdict } from "../harness/bars.ts";
import type { Contender, Measured } from "../harness/compare.ts";
import type { Summary } from "../harness/statistics.ts";
import { markdownTable, short } from "../harness/table.ts";
import type { ServersRow } from "./servers.ts";

/** Environment steps a second that a contender has to reach, on a machine with nothing else to do. */
export interface Floor {
  readonly contender: string;
  readonly mode: string;
  readonly least: number;
}

/** Results of a run. */
export interface Findings {
  /** Turns behind each median. */
  readonly turns: number;
  readonly rows: readonly Measured[];
  readonly verdicts: readonly Verdict[];
  readonly floors: readonly Floor[];
  readonly servers: readonly ServersRow[];
  /** Why contenders did not play, by id. */
  readonly missing: Readonly<Record<string, string>>;
  readonly contenders: readonly Contender[];
  /** Contenders whose number of slots grows, and those whose observations do. */
  readonly growth: readonly string[];
  readonly sizes: readonly string[];
}

/** Least speed of two server processes behind one vector, relative to one. */
const leastOfTwo = 1.7;

/** A judged bar, as a line of the report. */
interface Judged {
  readonly met: boolean;
  readonly text: string;
}

/** Writes Markdown tables of environment steps a second, and the verdict on each bar. */
export function report(findings: Findings): { readonly text: string; readonly missed: number } {
  const { rows, growth, sizes, turns } = findings;
  const grown = rows.filter(({ contender }) => growth.includes(contender));
  const sized = rows.filter(({ contender }) => sizes.includes(contender));
  const sockets = rows.filter(({ mode }) => mode === "lock1");
  const beside = rows.filter(
    ({ contender, mode }) =>
      ["slots64", "slots256", "slots1024"].includes(mode) && !sizes.includes(contender),
  );
  const judged = [...judgeRatios(findings), ...judgeFloors(findings), ...judgeServers(findings)];
  const parts = [
    `Medians of ${turns} turns (fewer in the growth tables); all contenders play in turns. In brackets: CPU µs of an environment step, server + client.`,
    section("slots", beside, findings),
    section("growth, slots", grown, findings),
    section("growth, observations; slots", sized, findings),
    section("one environment", sockets, findings),
    serversSection(findings),
    judged.map(({ met, text }) => `- ${met ? "✓" : "✗"} ${text}`).join("\n"),
    Object.entries(findings.missing)
      .map(([id, reason]) => `- – without ${labelOf(findings, id)}: ${reason}`)
      .join("\n"),
  ];
  return {
    text: parts.filter((part) => part !== "").join("\n\n"),
    missed: judged.filter(({ met }) => !met).length,
  };
}

/** A table with a row for each contender and a column for each mode; empty without rows. */
function section(title: string, rows: readonly Measured[], findings: Findings): string {
  if (rows.length === 0) {
    return "";
  }
  const modes = unique(rows.map(({ mode }) => mode)).sort((a, b) => countOf(a) - countOf(b));
  const lines = unique(rows.map(({ contender }) => contender)).map((id) => [
    labelOf(findings, id),
    ...modes.map((mode) => {
      const row = rows.find((each) => each.contender === id && each.mode === mode);
      return row === undefined ? "–" : cell(row);
    }),
  ]);
  return markdownTable([title, ...modes.map(headOf)], lines);
}

function cell({ stepsPerSecond, serverCpuMicros, clientCpuMicros }: Measured): string {
  const sides = [serverCpuMicros, clientCpuMicros].flatMap((side) =>
    side === undefined ? [] : [short(side.median)],
  );
  return `${rate(stepsPerSecond)} (${sides.join(" + ")})`;
}

const rate = ({ median }: Summary): string => short(median);

function serversSection({ servers }: Findings): string {
  if (servers.length === 0) {
    return "";
  }
  return markdownTable(
    ["server processes behind one vector, 16 slots of about 1 ms CPU a step", "steps/s", "CPU µs"],
    servers.map((row) => [
      `${row.servers}`,
      rate(row.stepsPerSecond),
      short(row.serverCpuMicros.median),
    ]),
  );
}

function judgeRatios(findings: Findings): Judged[] {
  return findings.verdicts.map(({ contender, against, mode, ratio, bound, met }) => ({
    met,
    text: `${nameOf(findings, contender, mode)}: ${short(ratio)} times ${labelOf(findings, against)} (≥ ${bound})`,
  }));
}

function judgeFloors(findings: Findings): Judged[] {
  return findings.floors.flatMap(({ contender, mode, least }) => {
    const row = findings.rows.find((each) => each.contender === contender && each.mode === mode);
    if (row === undefined) {
      return [];
    }
    return [
      {
        met: row.stepsPerSecond.median >= least,
        text: `${nameOf(findings, contender, mode)}: ${rate(row.stepsPerSecond)} steps/s (≥ ${short(least)})`,
      },
    ];
  });
}

function judgeServers({ servers }: Findings): Judged[] {
  const [one, two] = servers;
  if (one === undefined || two === undefined) {
    return [];
  }
  const ratio = two.stepsPerSecond.median / one.stepsPerSecond.median;
  return [
    {
      met: ratio >= leastOfTwo,
      text: `${two.servers} server processes: ${short(ratio)} times one (≥ ${leastOfTwo})`,
    },
  ];
}

const nameOf = (findings: Findings, contender: string, mode: string): string =>
  `${labelOf(findings, contender)}, ${headOf(mode)}`;

const labelOf = ({ contenders }: Findings, id: string): string =>
  contenders.find((contender) => contender.id === id)?.label ?? id;

/** Slots of a mode; 0 for another mode. */
const countOf = (mode: string): number => Number(/^slots(\d+)$/.exec(mode)?.[1] ?? 0);

function headOf(mode: string): string {
  const count = countOf(mode);
  return count === 0 ? "lock-step" : count.toLocaleString("en");
}

const unique = (values: readonly string[]): string[] => [...new Set(values)];
