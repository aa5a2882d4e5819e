// SPDX-License-Identifier: Apache-2.0
import { t } from "@dm-env-rpc/tensor-codec";
import { describe, expect, it } from "vitest";
import { lockstep } from "../clocks/lockstep.ts";
import { wakeUp } from "../clocks/wake-up.ts";
import { property } from "../definition/property.ts";
import {
  createEnvironmentServer,
  type EnvironmentServerOptions,
} from "../host/environment-server.ts";
import { withDefault } from "./settings.ts";
import { defineWorld, type UntypedWorldDefinition } from "./world.ts";

const good = defineWorld({
  name: "good",
  actions: {},
  observations: {},
  create: () => ({ step() {}, observe: {} }),
});

/** A definition without type checks, as in JavaScript. */
const bad = (part: object): UntypedWorldDefinition => Object.assign({}, good, part);

const cases: readonly [string, readonly UntypedWorldDefinition[], RegExp][] = [
  ["two worlds of one name", [good, good], /different names, received two named "good"/],
  ["a world without a name", [bad({ name: "" })], /its name is empty/],
  ["more agents needed than fit", [bad({ agents: { min: 5, max: 2 } })], /max, received 5 and 2/],
  ["no room for an agent", [bad({ agents: { max: 0 } })], /max, received 1 and 0/],
  [
    "a deadline that is not a number",
    [bad({ clock: lockstep({ deadlineMs: Number.NaN }) })],
    /"good": expected clock.deadlineMs above 0, received NaN/,
  ],
  ["a negative reset deadline", [bad({ resetDeadlineMs: -5 })], /resetDeadlineMs.*received -5/],
  ["the setting world_type", [bad({ settings: { world_type: t.string() } })], /reserved/],
  ["the setting join_token", [bad({ joinSettings: { join_token: t.string() } })], /reserved/],
  [
    "a default out of bounds",
    [bad({ settings: { size: withDefault(t.int32([], { min: 1 }), 0) } })],
    /default of a setting.*"size".*received 0/,
  ],
  [
    "an observation with the name of a group",
    [bad({ observations: { a: { b: t.int32() }, "a.b": t.int32() } })],
    /its observations are not valid specs.*a\.b/,
  ],
  [
    "a clock without its action",
    [bad({ clock: wakeUp({ action: "nap" }) })],
    /reads the action "nap", which is not among/,
  ],
];

it("behaviour 69: an unknown option is refused, with the nearest known one in the error", () => {
  expect(() => createEnvironmentServer({ worlds: [bad({ onLeav: "block" })] })).toThrow(
    /the world "good": unknown name "onLeav": .*; did you mean "onLeave"/,
  );
});

describe("behaviour 24: before it accepts clients, a server refuses", () => {
  it.each(cases)("%s", (_what, worlds, why) => {
    expect(() => createEnvironmentServer({ worlds })).toThrow(why);
  });

  const servers: readonly [string, Partial<EnvironmentServerOptions>, RegExp][] = [
    [
      "a property that every server has",
      { properties: { server: { mine: property(t.int32(), { read: () => 1 }) } } },
      /property "server" is reserved: every server has/,
    ],
    [
      "two extensions for one type",
      {
        extensions: [1, 2].map(() => ({
          typeName: "a.Message",
          answer: (request) => request,
        })),
      },
      /two for "a.Message"/,
    ],
  ];
  it.each(servers)("%s", (_what, options, why) => {
    expect(() => createEnvironmentServer({ worlds: [good], ...options })).toThrow(why);
  });
});
