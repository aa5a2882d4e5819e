// SPDX-License-Identifier: Apache-2.0
import { parseOptions, usage } from "./options.ts";
import { Arena, type Pace } from "./run/arena.ts";
import { fullBars, missedBars, quickBars } from "./run/bars.ts";
import { removeReport, tableHead, tableRow, type Verdict, writeReport } from "./run/report.ts";

const fullPace: Pace = { beforeMs: 2_000, attackMs: 4_000, afterMs: 1_000, reusesServers: false };
const quickPace: Pace = { beforeMs: 200, attackMs: 500, afterMs: 0, reusesServers: true };

/** Runs of an attack that misses a bar; the best one counts. */
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
  for (const { room, attack } of attacks) {
    let best: Verdict | undefined;
    for (let runs = 1; runs <= mostRuns && best?.missed.length !== 0; runs++) {
      const row = await arena.run(room, attack);
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
  writeReport(verdicts);
  const failed = verdicts.filter(({ missed }) => missed.length > 0).length;
  print(`\n${verdicts.length - failed} of ${verdicts.length} attacks met every bar`);
  process.exitCode = failed === 0 ? 0 : 1;
}

main().catch((error: unknown) => {
  process.stderr.write(`${error instanceof Error ? error.stack : String(error)}\n`);
  process.exitCode = 1;
});
