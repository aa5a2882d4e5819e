// SPDX-License-Identifier: Apache-2.0
import { isDeepStrictEqual } from "node:util";
import { describe, expect, it } from "vitest";
import { faults } from "../testing/faults.ts";
import { serveWithFault } from "../testing/faulty-server.ts";
import { meadowConfig } from "../testing/meadow.ts";
import type { MeadowClock } from "../testing/meadow-clocks.ts";
import { runConformance } from "./run.ts";

/** Short deadlines for the common case: some faults are found only by a timeout. */
const hasty = { timeoutMs: 6_000, quietMs: 100 };
/** Long deadlines, because a busy machine may pause for a while. */
const patient = { timeoutMs: 60_000, quietMs: 2_000 };

async function failuresOf(
  address: string,
  pace: typeof hasty,
  clock: MeadowClock,
): Promise<readonly string[]> {
  const config = { ...meadowConfig, clock, ...pace };
  const { results } = await runConformance({ address, config });
  return results.filter(({ outcome }) => outcome.kind === "failed").map(({ id }) => id);
}

describe.concurrent("a copy of the server", { timeout: 900_000 }, () => {
  it.each(["lockstep", "realtime"] as const)(
    "passes every check without a fault, %s",
    async (clock) => {
      await using server = await serveWithFault(undefined, clock);
      const pace = { ...hasty, timeoutMs: patient.timeoutMs };
      expect(await failuresOf(server.address, pace, clock)).toEqual([]);
    },
  );

  it.each(Object.entries(faults))("with %s fails a check", async (_what, fault) => {
    const { foundBy, alsoBy = [], clock = "lockstep" } = fault;
    const judge = async (pace: typeof hasty) => {
      await using server = await serveWithFault(fault);
      const failures = await failuresOf(server.address, pace, clock);
      const others = failures.filter((id) => id !== foundBy && !alsoBy.includes(id));
      return { isFound: failures.includes(foundBy), others };
    };
    const verdict = { isFound: true, others: [] };
    if (isDeepStrictEqual(await judge(hasty), verdict)) {
      return;
    }
    expect(await judge(patient)).toEqual(verdict);
  });

  it("is refused if a fault's text is not unique in the sources", async () => {
    const fault = { by: "", foundBy: "" };
    await expect(serveWithFault({ ...fault, replace: "no such line" })).rejects.toThrow(
      /once in the sources.* 0 times/,
    );
    await expect(serveWithFault({ ...fault, replace: "return" })).rejects.toThrow(/\d{2,} times/);
  });
});
