// SPDX-License-Identifier: Apache-2.0
import { t } from "@dm-env-rpc/tensor-codec";
import { describe, expect, it } from "vitest";
import { defineWorld, type UntypedWorldDefinition } from "../definition/world.ts";
import { type Settings, WorldSettings } from "./world-settings.ts";

type Specs = Pick<UntypedWorldDefinition, "actions" | "observations">;

const fixed = { go: t.int32() };

function settingsOf(specs: Partial<Specs> = {}): WorldSettings {
  const definition: UntypedWorldDefinition = defineWorld({
    name: "plain",
    actions: fixed,
    observations: fixed,
    create: () => ({ step() {}, observe: { go: () => 0 } }),
  });
  return new WorldSettings({
    definition: { ...definition, ...specs },
    settings: new Map(),
    randomSeed: () => 1n,
    limits: { maxElements: 100 },
  });
}

const plainly = (_name: string, run: () => void): undefined => {
  run();
};

describe("the specs of agents", () => {
  it("are shared if no function creates them", () => {
    const settings = settingsOf();
    expect(settings.specsFor({}, plainly)).toBe(settings.specsFor({}, plainly));
  });

  it.each<[string, (make: (of: { readonly join: Settings }) => typeof fixed) => Partial<Specs>]>([
    ["actions", (make) => ({ actions: make as never })],
    ["observations", (make) => ({ observations: make as never })],
  ])("are made for each agent by a function of its %s", (which, specs) => {
    const settings = settingsOf(
      specs(({ join }) => (join["own"] ? { go: t.int32(), ...join } : fixed) as typeof fixed),
    );
    const [own, plain] = [{ own: t.bool() }, {}].map((join) => settings.specsFor(join, plainly));
    const namesOf = (of: typeof own): (readonly string[])[] =>
      [of?.actions, of?.observations].map((table) => table?.entries.map(({ name }) => name) ?? []);
    const changed = ["go", "own"];
    expect(namesOf(own)).toEqual(which === "actions" ? [changed, ["go"]] : [["go"], changed]);
    expect(namesOf(plain)).toEqual([["go"], ["go"]]);
  });
});

describe("the counts of agents", () => {
  it("are from one to a thousand, unless the author says otherwise", () => {
    expect([settingsOf().counts, settingsOf().declaredMax]).toEqual([
      { min: 1, max: 1000 },
      undefined,
    ]);
  });
});
