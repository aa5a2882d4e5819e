// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { faults } from "../testing/faults.ts";
import { serveWithFault } from "../testing/faulty-server.ts";
import { meadowConfig } from "../testing/meadow.ts";
import { runConformance } from "./run.ts";

const config = { ...meadowConfig, timeoutMs: 6_000, quietMs: 100 };

async function failuresOf(address: string): Promise<readonly string[]> {
  const { results } = await runConformance({ address, config });
  return results.filter(({ outcome }) => outcome.kind === "failed").map(({ id }) => id);
}

describe.concurrent("a copy of the server", { timeout: 180_000 }, () => {
  it("has nothing to complain about as it is", async () => {
    await using server = await serveWithFault();
    expect(await failuresOf(server.address)).toEqual([]);
  });

  it.each(Object.entries(faults))("with %s is found out", async (_what, fault) => {
    await using server = await serveWithFault(fault);
    const failures = await failuresOf(server.address);
    const { foundBy, alsoBy = [] } = fault;
    expect(failures).toContain(foundBy);
    expect(failures.filter((id) => id !== foundBy && !alsoBy.includes(id))).toEqual([]);
  });

  it("is not made where a fault has nothing to replace, or too much", async () => {
    const fault = { by: "", foundBy: "" };
    await expect(serveWithFault({ ...fault, replace: "no such line" })).rejects.toThrow(
      /once in the sources.* 0 times/,
    );
    await expect(serveWithFault({ ...fault, replace: "return" })).rejects.toThrow(/\d{2,} times/);
  });
});
