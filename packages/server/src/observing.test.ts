// SPDX-License-Identifier: Apache-2.0
import { t } from "@dm-env-rpc/tensor-codec";
import { describe, expect, it } from "vitest";
import { connectPeer } from "../testing/peer.ts";
import { createEnvironmentServer } from "./environment-server.ts";
import type { ObservationChecks } from "./observing.ts";
import { defineWorld } from "./world.ts";

/** A world whose observations are what `make` says, step by step. */
async function play(
  make: (step: number) => unknown,
  steps: number,
  checkObservations: ObservationChecks,
): Promise<number> {
  let step = 0;
  const world = defineWorld({
    name: "careless",
    actions: {},
    observations: { row: t.int32([2], { min: 0, max: 9 }), free: t.int32([2]) },
    create: () => ({
      step() {
        step += 1;
      },
      observe: { row: () => make(step) as Int32Array, free: () => new Int32Array(2) },
    }),
  });
  await using server = createEnvironmentServer({ worlds: [world], checkObservations });
  const peer = connectPeer(server);
  await peer.join(await peer.createWorld());
  for (let i = 0; i < steps; i++) {
    try {
      await peer.step();
    } catch (error) {
      expect(String(error)).toMatch(/13: .*careless-1.*observe\.row.*"row"/);
      return i;
    }
  }
  return steps;
}

const outside = (step: number) => Int32Array.of(0, step === 0 ? 9 : 10);

describe("observations", () => {
  it("behaviour 17: outside their bounds are the world's failure", async () => {
    expect(await play(outside, 200, "always")).toBe(1);
  });

  it("behaviour 17: are found to be outside their bounds sooner or later when sampled", async () => {
    const found = await play(outside, 200, "sampled");
    expect(found).toBeGreaterThan(1);
    expect(found).toBeLessThan(100);
  });

  it("behaviour 17: are not held to their bounds when checks are off", async () => {
    expect(await play(outside, 200, "off")).toBe(200);
  });

  it.each(["always", "sampled", "off"] as const)(
    "behaviour 36: of another dtype or length never go out, with checks %s",
    async (checks) => {
      const bad = [new Int32Array(3), new Float32Array(2), [1, 2, 3], "no", undefined, 1.5];
      for (const value of bad) {
        const make = (step: number) => (step < 3 ? new Int32Array(2) : value);
        expect(await play(make, 10, checks)).toBe(3);
      }
    },
  );
});
