// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { partiesOf, seatsOf } from "./assignments.ts";

describe("the parties of a match", () => {
  it("include each ticket of several agents, in addition to the parties that the match had before", () => {
    const tickets = [{ id: "a", partySize: 3 }, { id: "b" }, { id: "c", partySize: 1 }];
    expect(partiesOf(tickets, { d: 2 })).toEqual({ parties: { a: 3, d: 2 } });
  });

  it("are not in the record of a match whose tickets all have one agent", () => {
    expect(partiesOf([{ id: "b" }, { id: "c", partySize: 1 }])).not.toHaveProperty("parties");
  });

  it("use a seat for each of their agents", () => {
    expect(seatsOf({ parties: { a: 3 } }, ["a", "b"])).toBe(4);
    expect(seatsOf({}, ["a", "b"])).toBe(2);
  });
});
