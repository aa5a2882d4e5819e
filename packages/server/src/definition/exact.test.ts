// SPDX-License-Identifier: Apache-2.0
import { t } from "@dm-env-rpc/tensor-codec";
import { describe, expect, it } from "vitest";
import { connectPeer } from "../../testing/peer.ts";
import { createEnvironmentServer } from "../host/environment-server.ts";
import { optional } from "./settings.ts";
import { defineWorld } from "./world.ts";

const world = defineWorld({
  name: "seeded",
  settings: { seed: optional(t.uint64()), size: optional(t.int8()) },
  actions: {},
  observations: {},
  create: () => ({ step() {}, observe: {} }),
});

describe("behaviour 21: a number among the settings", () => {
  it.each([[{ seed: 2 }], [{ seed: 2n ** 63n - 1n }], [{ size: -128 }]])(
    "may be sent in any dtype that represents it exactly: %o",
    async (settings) => {
      await connectPeer(createEnvironmentServer({ worlds: [world] })).createWorld(settings);
    },
  );

  it.each([
    [
      { seed: 1.5 },
      /"seed": expected a number that uint64 can represent exactly, received 1.5 \(float64\)/,
    ],
    [{ seed: -1 }, /"seed": expected a number that uint64 can represent exactly, received -1 /],
    [{ size: 128 }, /"size": expected a number that int8 can represent exactly, received 128 /],
    [{ seed: "7" }, /seed.*string.*nothing is cast/],
    // The shape is checked before any number is converted.
    [{ seed: [0.5, 0.5] }, /"?seed"?.*expected shape \[\], received shape \[2\]/],
    [{ ["x".repeat(100_000)]: 1 }, /unknown create setting "x{100}…"/],
  ])("is refused if the conversion would change it: case %#", async (settings, why) => {
    const peer = connectPeer(createEnvironmentServer({ worlds: [world] }));
    await expect(peer.createWorld(settings)).rejects.toThrow(why);
  });
});

it("behaviour 24: if `create` does not return a world, the error names what is missing", async () => {
  const nothing = Object.assign({}, world, { create: () => undefined });
  const peer = connectPeer(createEnvironmentServer({ worlds: [nothing as never] }));
  await expect(peer.createWorld()).rejects.toThrow(
    /^13: .*"create" failed: expected a world with a function "step".*received undefined/,
  );
});
