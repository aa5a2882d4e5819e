// SPDX-License-Identifier: Apache-2.0
import { isDmEnvRpcError, pack, type Specs, t } from "@dm-env-rpc/tensor-codec";
import type { StepRequest, Uid } from "@dm-env-rpc/tensor-codec/wire";
import { describe, expect, it } from "vitest";
import { required } from "../definition/world.ts";
import { SeatSpecs } from "./seat-specs.ts";

const seatSpecs = (actions: Specs, observations: Specs = {}): SeatSpecs =>
  new SeatSpecs(actions, observations, 100);

const many = (count: number): Specs =>
  Object.fromEntries(Array.from({ length: count }, (_, i) => [`o${i}`, t.int32()]));

/** A step with the same action for each UID. */
const acting = (...uids: Uid[]): StepRequest => ({
  actions: uids.map((uid) => ({ uid, tensor: pack(1, { dtype: "int32" }) })),
  requestedObservations: [],
});
const requesting = (...requestedObservations: Uid[]): StepRequest => ({
  actions: [],
  requestedObservations,
});

/** The code and the text of an error. */
function errorOf(run: () => unknown): string {
  try {
    run();
  } catch (error) {
    return isDmEnvRpcError(error) ? `${error.code}: ${error.message}` : `${error}`;
  }
  return "none";
}

describe("behaviour 34: the actions of a step", () => {
  it("contain only the given actions, nested as in the specs", () => {
    const specs = seatSpecs({ go: t.int32(), arm: { left: t.int32(), right: t.int32() } });
    const uidOf = (name: string) => specs.actions.byName.get(name)?.uid as Uid;
    expect(specs.readActions(acting())).toEqual({});
    expect(specs.readActions(acting(uidOf("arm.right"), uidOf("go")))).toEqual({
      go: 1,
      arm: { right: 1 },
    });
  });

  it("are refused if a required one is missing, and the error names it", () => {
    const specs = seatSpecs({ go: required(t.int32()), turn: t.int32(), arm: required(t.int32()) });
    const [go, turn, arm] = specs.actions.entries.map(({ uid }) => uid) as [Uid, Uid, Uid];
    expect(specs.readActions(acting(arm, go))).toEqual({ go: 1, arm: 1 });
    for (const [request, missing] of [
      [acting(), "go"],
      [acting(arm, turn), "go"],
      [acting(go, turn), "arm"],
    ] as const) {
      expect(errorOf(() => specs.readActions(request))).toMatch(
        new RegExp(
          `^INVALID_ARGUMENT: the action "${missing}" .*missing: expected it in every step`,
        ),
      );
    }
  });
});

describe("behaviour 35: the requested observations of a step", () => {
  const specs = seatSpecs({}, many(3));
  const [one, two, three] = specs.observations.entries.map(({ uid }) => uid) as [Uid, Uid, Uid];
  const namesOf = (...uids: Uid[]): string[] =>
    specs.readRequested(requesting(...uids)).map(({ name }) => name);

  it("are listed once each, in the order of the request", () => {
    expect(namesOf()).toEqual([]);
    expect(namesOf(three, one, three)).toEqual(["o2", "o0"]);
  });

  it("are read anew even if the request differs little from the last one", () => {
    expect(namesOf(one, two)).toEqual(["o0", "o1"]);
    expect(namesOf(one)).toEqual(["o0"]);
    expect(namesOf(one, three)).toEqual(["o0", "o2"]);
    expect(namesOf(two, three)).toEqual(["o1", "o2"]);
    expect(namesOf(two, three, one)).toEqual(["o1", "o2", "o0"]);
  });

  it("are the same list object for repeated identical requests", () => {
    const first = specs.readRequested(requesting(one, two));
    expect(specs.readRequested(requesting(one, two))).toBe(first);
    expect(specs.readRequested(requesting(two, one))).not.toBe(first);
  });
});

describe("behaviour 35: the error of an unknown UID", () => {
  const textOf = (specs: SeatSpecs): string =>
    errorOf(() => specs.readRequested(requesting(2n ** 60n)));

  it("names the UID and lists the known ones", () => {
    const specs = seatSpecs({ go: t.int32() }, many(2));
    const listed = specs.observations.entries.map(({ uid, name }) => `${uid} (${name})`);
    expect(textOf(specs)).toBe(
      `INVALID_ARGUMENT: unknown observation UID ${2n ** 60n}: expected one of ${listed.join(", ")}`,
    );
    expect(errorOf(() => specs.readActions(acting(77)))).toMatch(
      /^INVALID_ARGUMENT: unknown action UID 77: expected one of \d+ \(go\)$/,
    );
    expect(textOf(seatSpecs({}))).toMatch(/: expected one of none$/);
  });

  it("counts the UIDs beyond the first 32", () => {
    expect(textOf(seatSpecs({}, many(32)))).toMatch(/\(o31\)$/);
    expect(textOf(seatSpecs({}, many(40)))).toMatch(/\(o31\) and 8 more$/);
  });
});

it("the specs of a seat are one message, which is created once", () => {
  const specs = seatSpecs({ go: t.int32() }, { at: t.float32([2]) });
  const { message } = specs;
  const names = (table: Record<string, { readonly name: string }>): string[] =>
    Object.values(table).map(({ name }) => name);
  expect([names(message.actions), names(message.observations)]).toEqual([["go"], ["at"]]);
  expect(specs.message).toBe(message);
});
