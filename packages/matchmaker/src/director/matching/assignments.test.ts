// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import type { Match } from "../../model/model.ts";
import { vacated } from "../outcomes.ts";
import { partiesOf, seatsOf } from "./assignments.ts";

describe("the parties of a match", () => {
  it("include each ticket of several agents, in addition to the parties that the match had before", () => {
    const tickets = [{ id: "a", partySize: 3 }, { id: "b" }, { id: "c", partySize: 1 }];
    expect(partiesOf(tickets, { d: 2 })).toEqual({ parties: { a: 3, d: 2 } });
  });

  it("are not in the record of a match whose tickets all have one agent", () => {
    expect(partiesOf([{ id: "b" }, { id: "c", partySize: 1 }])).not.toHaveProperty("parties");
  });

  it("may have tickets whose IDs are names of an object's own properties", () => {
    const tickets = [{ id: "__proto__", partySize: 3 }, { id: "constructor" }];
    const { parties } = partiesOf(tickets);
    expect(seatsOf({ parties }, ["__proto__", "constructor", "toString"])).toBe(5);
    const ids = ["__proto__", "constructor"];
    const teams = [{ name: "red", tickets: ids }];
    const match = { teams, parties, vacancies: [] } as unknown as Match;
    expect(vacated(match, "constructor").vacancies).toEqual(["red"]);
    expect(vacated(match, "__proto__").vacancies).toEqual(["red", "red", "red"]);
  });

  it("use a seat for each of their agents", () => {
    expect(seatsOf({ parties: { a: 3 } }, ["a", "b"])).toBe(4);
    expect(seatsOf({}, ["a", "b"])).toBe(2);
  });
});
