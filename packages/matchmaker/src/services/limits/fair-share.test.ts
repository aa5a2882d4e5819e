// SPDX-License-Identifier: Apache-2.0
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { fairShare } from "./fair-share.ts";

/** Lets callers take as much as they may, in turns of one each. Returns how much each has, and how much is free. */
function fill(callers: number, perCaller: number, total: number) {
  const taken = Array.from({ length: callers }, () => 0);
  let free = total;
  for (let isMore = true; isMore; ) {
    isMore = false;
    for (const [i, own] of taken.entries()) {
      if (free > 0 && own < fairShare(perCaller, total, free)) {
        taken[i] = own + 1;
        free -= 1;
        isMore = true;
      }
    }
  }
  return { taken, free };
}

describe("the room of all callers", () => {
  it("lets a caller that is alone reach its own limit, for any limits", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 300 }),
        fc.integer({ min: 1, max: 300 }),
        (own, total) => {
          expect(fill(1, own, total).taken).toEqual([Math.min(own, total)]);
        },
      ),
    );
  });

  it("gives five callers all that they may use, because much stays free", () => {
    expect(fill(5, 2_000, 20_000)).toEqual({ taken: Array(5).fill(2_000), free: 10_000 });
  });

  it("is not used up by thirty callers of which each takes all that it may before the next one", () => {
    let free = 20_000;
    for (let callers = 0; callers < 30; callers++) {
      for (let own = 0; own < fairShare(2_000, 20_000, free); own++) {
        free -= 1;
      }
    }
    expect(free).toBeGreaterThan(20);
  });

  it.each([10, 100, 300])("is not used up by %i callers", (callers) => {
    const { taken, free } = fill(callers, 2_000, 20_000);
    expect(Math.max(...taken) - Math.min(...taken)).toBeLessThanOrEqual(1);
    expect(free).toBeGreaterThanOrEqual(20_000 / (callers / 4 + 2));
    // One more caller is admitted.
    expect(fairShare(2_000, 20_000, free)).toBeGreaterThan(0);
  });
});
