// SPDX-License-Identifier: Apache-2.0
import { parseOptions, usage } from "./options.ts";
import { Arena, type Pace } from "./run/arena.ts";
import { fullBars, missedBars, quickBars } from "./run/bars.ts";
import { removeReport, tableHead, tableRow, type Verdict, writeReport } from "./run/report.ts";

const fullPace: Pace = {
  beforeMs: 2_000,
  attackMs: { frames: 4_000, connections: 6_000, messages: 4_000, requests: 4_000, memory: 8_000 },
  afterMs: 1_000,
  reusesServers: false,
};
const quickPace: Pace = {
  beforeMs: 100,
  attackMs: { frames: 300, connections: 500, messages: 300, requests: 300, memory: 1_500 },
  afterMs: 0,
  reusesServers: true,
};

/** Maximum number of runs of an attack while it misses a bar; the best run counts. */
const mostRuns = 3;

async function main(): Promise<void> {
  const { attacks, quick, help } = parseOptions(process.argv.slice(2));
  const print = (line: string): void => void process.stdout.write(`${line}\n`);
  if (help) {
    print(usage);
    return;
  }
  removeReport();
  await using arena = await Arena.open(quick ? quickPace : fullPace);
  const bars = quick ? quickBars : fullBars;
  const verdicts: Verdict[] = [];
  print(tableHead);
  for (const [i, { room, attack }] of attacks.entries()) {
    let best: Verdict | undefined;
    for (let runs = 1; runs <= mostRuns && best?.missed.length !== 0; runs++) {
      const row = await arena.run(room, attack, quick ? attacks[i + 1]?.attack : undefined);
      const missed = missedBars(row, bars);
      best =
        best === undefined || missed.length < best.missed.length
          ? { row, missed, runs }
          : { ...best, runs };
    }
    if (best !== undefined) {
      print(tableRow(best));
      verdicts.push(best);
      if (best.missed.length > 0 || attacks.length < 10) {
        print(`  ${attack}: ${best.row.seen}`);
      }
    }
  }
  for (const { attack, descriptors, ms } of await arena.exorcise()) {
    print(
      `${attack}: ${descriptors} descriptors still open ${(ms / 1000).toFixed(0)} s after the attack`,
    );
    const at = verdicts.findIndex(({ row }) => row.attack === attack);
    const verdict = verdicts[at];
    if (descriptors > 0 && verdict !== undefined) {
      const missed = [...verdict.missed, `${descriptors} descriptors left open`];
      verdicts[at] = { ...verdict, missed };
    }
  }
  writeReport(verdicts);
  const met = verdicts.filter(({ missed }) => missed.length === 0).length;
  print(`\n${met} of ${verdicts.length} attacks met every bar`);
  process.exitCode = met === verdicts.length ? 0 : 1;
}

main().catch((error: unknown) => {
  process.stderr.write(`${error instanceof Error ? error.stack : String(error)}\n`);
  process.exitCode = 1;
});
