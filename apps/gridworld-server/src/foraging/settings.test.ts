// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { type ForagingSettingsInput, resolveSettings } from "./settings.ts";
import { expectRefusal } from "./testing.ts";

const settingsOf = (input: ForagingSettingsInput) => resolveSettings(input).settings;

describe("resolveSettings", () => {
  it("fills in the defaults", () => {
    expect(settingsOf({ height: undefined })).toEqual({
      height: 8,
      width: 8,
      maxAgents: 4,
      minAgents: 1,
      food: 4,
      maxAgentLevel: 2,
      minFoodLevel: 1,
      maxFoodLevel: 0,
      sight: 8,
      maxSteps: 50,
      cooperative: false,
      penalty: 0,
      normalizeReward: true,
    });
  });

  it("has the length of the larger side as the default sight", () => {
    expect(settingsOf({ height: 5, width: 9 }).sight).toBe(9);
    expect(settingsOf({ height: 5, width: 9, sight: 2 }).sight).toBe(2);
  });

  it("takes height and width from the layout", () => {
    expect(settingsOf({ layout: "a..1\n...." })).toMatchObject({ height: 2, width: 4, sight: 4 });
  });

  it("refuses a height or width that the layout does not have", () => {
    const input = { layout: "a..1\n....", height: 2, width: 8 };
    expectRefusal(() => settingsOf(input), "invalid-setting", "2 and 4", "2 and 8");
    expect(settingsOf({ ...input, width: 4 }).width).toBe(4);
  });

  it("ignores a blank layout", () => {
    expect(settingsOf({ layout: "" })).toEqual(settingsOf({}));
  });

  it("makes room for all that the layout draws", () => {
    expect(settingsOf({ layout: "abcde.1.2.3.4.5" })).toMatchObject({ maxAgents: 5, food: 5 });
    expectRefusal(() => settingsOf({ layout: "a1.2", food: 1 }), "invalid-setting", "food", "2");
  });

  it("has at most as many agents as there are cells without drawn food", () => {
    expect(settingsOf({ layout: "a1." }).maxAgents).toBe(2);
    expectRefusal(
      () => settingsOf({ layout: "a1.", maxAgents: 3 }),
      "invalid-setting",
      "from 1 to 2",
    );
    expectRefusal(() => settingsOf({ height: 3, width: 3, maxAgents: 10 }), "invalid-setting", "9");
    expectRefusal(() => settingsOf({ layout: "12" }), "invalid-layout", "cell for an agent");
  });

  it("holds levels to 85, so that the sum of three fits a uint8", () => {
    expect(settingsOf({ maxAgentLevel: 85 }).maxAgentLevel).toBe(85);
    expectRefusal(
      () => settingsOf({ maxAgentLevel: 86 }),
      "invalid-setting",
      "max_agent_level",
      "86",
    );
    expectRefusal(() => settingsOf({ maxFoodLevel: 86 }), "invalid-setting", "max_food_level");
  });

  it("refuses a max_food_level below min_food_level, but accepts 0, which means a sum", () => {
    const input = { minFoodLevel: 3, maxFoodLevel: 2 };
    expectRefusal(
      () => settingsOf(input),
      "invalid-setting",
      "max_food_level",
      "(3)",
      "received 2",
    );
    expect(settingsOf({ minFoodLevel: 3 }).maxFoodLevel).toBe(0);
  });

  it.each([
    [{ height: 2 }, "height"],
    [{ width: 129 }, "width"],
    [{ width: 8.5 }, "width"],
    [{ maxAgents: 0 }, "max_agents"],
    [{ minAgents: 5 }, "min_agents"],
    [{ food: 0 }, "food"],
    [{ minFoodLevel: 0 }, "min_food_level"],
    [{ sight: 0 }, "sight"],
    [{ maxSteps: 2 ** 31 }, "max_steps"],
    [{ penalty: -0.1 }, "penalty"],
    [{ penalty: Number.NaN }, "penalty"],
  ])("refuses %o by name, with the received value", (input, name) => {
    const [received] = Object.values(input);
    expectRefusal(() => settingsOf(input), "invalid-setting", `${name}: `, `received ${received}`);
  });
});
