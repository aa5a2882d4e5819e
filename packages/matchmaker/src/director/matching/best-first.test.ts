// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import type { Proposal } from "../context.ts";
import { bestFirst } from "./proposals.ts";

/** Returns a proposal with teams of tickets, each given as its `createdMs` and priority. */
function proposal(
  profile: string,
  tickets: readonly (readonly [createdMs: number, priority?: number])[],
  score?: number,
): Proposal {
  const waiting = tickets.map(([createdMs, priority], at) => ({
    id: `${profile}-${at}`,
    createdMs,
    priority,
    search: { doubles: {}, strings: {}, tags: [] },
    extensions: {},
  }));
  return { profile, teams: { one: waiting.slice(0, 1), other: waiting.slice(1) }, score };
}

const namesOf = (proposals: readonly Proposal[]) => proposals.map(({ profile }) => profile);

describe("the proposals of a tick", () => {
  it("are sorted by score before priority and age", () => {
    const [low, high] = [proposal("low", [[1, 9]], -1), proposal("high", [[5]], 2)];
    const none = proposal("none", [[3]]);
    expect(namesOf(bestFirst([low, none, high]))).toEqual(["high", "none", "low"]);
    expect(namesOf(bestFirst([high, none, low]))).toEqual(["high", "none", "low"]);
    expect(namesOf(bestFirst([low, high]))).toEqual(["high", "low"]);
  });

  it("with equal scores are sorted by the highest priority of their tickets before age", () => {
    const urgent = proposal("urgent", [[9], [9, 3]], 1);
    const less = proposal(
      "less",
      [
        [2, 2],
        [2, 2],
      ],
      1,
    );
    const plain = proposal("plain", [[1], [1]], 1);
    const negative = proposal(
      "negative",
      [
        [0, -1],
        [0, -2],
      ],
      1,
    );
    const sorted = ["urgent", "less", "plain", "negative"];
    expect(namesOf(bestFirst([negative, plain, less, urgent]))).toEqual(sorted);
    expect(namesOf(bestFirst([urgent, less, plain, negative]))).toEqual(sorted);
  });

  it("with equal scores and priorities are sorted by the age of their oldest ticket", () => {
    const old = proposal("old", [[7], [1]]);
    const newer = proposal("newer", [[2], [3]]);
    expect(namesOf(bestFirst([newer, old]))).toEqual(["old", "newer"]);
    expect(namesOf(bestFirst([old, newer]))).toEqual(["old", "newer"]);
  });

  it("keep their order if score, priority and age are equal", () => {
    const twins = [proposal("one", [[1]]), proposal("other", [[1]])];
    expect(bestFirst(twins)).toEqual(twins);
    expect(bestFirst([])).toEqual([]);
  });
});
