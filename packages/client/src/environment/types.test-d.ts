// SPDX-License-Identifier: Apache-2.0
import { type Scalar, type Tensor, type TensorSpec, t } from "@dm-env-rpc/tensor-codec";
import { expectTypeOf, test } from "vitest";
import type { Connection, DynamicObservation, Environment, TimeStep } from "../index.ts";

declare const connection: Connection;

const definition = {
  actions: { move: t.int8({ min: 0, max: 4 }), arm: { turn: t.float32([2]) } },
  observations: {
    view: t.uint8([11, 11, 3]),
    self: { health: t.float32(), name: t.string() },
    reward: t.float32(),
  },
} as const;

test("a definition types actions and observations, without reward and discount", async () => {
  const environment = await connection.join("world", { as: definition });
  const step = await environment.step({ move: 1, arm: { turn: [0.5, 1] } });
  expectTypeOf(step.observation.view).toEqualTypeOf<Tensor<"uint8">>();
  expectTypeOf(step.observation.self.health).toEqualTypeOf<number>();
  expectTypeOf(step.observation.self.name).toEqualTypeOf<string>();
  expectTypeOf(step.observation).not.toHaveProperty("reward");
  expectTypeOf(step.reward).toEqualTypeOf<number | null>();
  await environment.step({});
  // @ts-expect-error there is no such action
  await environment.step({ jump: 1 });
  // @ts-expect-error an int8 is a number
  await environment.step({ move: "up" });
});

test("a batch has the types of its definition, stacked", async () => {
  const batch = await connection.join("world", { as: definition, batch: 8 });
  const { observation, timeSteps } = await batch.step({ move: Int8Array.of(1), arm: { turn: 0 } });
  expectTypeOf(observation.view).toEqualTypeOf<Tensor<"uint8">>();
  expectTypeOf(observation.self.health).toEqualTypeOf<Tensor>();
  expectTypeOf(observation).not.toHaveProperty("reward");
  expectTypeOf(timeSteps[0]?.observation.self.health).toEqualTypeOf<number | undefined>();
  await batch.step([{ move: 1 }, { move: 2 }]);
  // @ts-expect-error there is no such action
  await batch.step({ jump: 1 });
});

test("the observation has the requested names", async () => {
  const environment = await connection.join("world", {
    as: definition,
    observations: ["reward", "self.health"],
  });
  const { observation } = await environment.reset();
  expectTypeOf(observation.reward).toEqualTypeOf<number>();
  expectTypeOf(observation.self.health).toEqualTypeOf<number>();
  expectTypeOf(observation).not.toHaveProperty("view");
  expectTypeOf(observation.self).not.toHaveProperty("name");
  // @ts-expect-error there is no such observation
  await connection.join("world", { as: definition, observations: ["map"] });
});

test("functions that derive specs from settings type an environment, too", async () => {
  const environment = await connection.join("world", {
    as: {
      actions: () => definition.actions,
      observations: (settings: { width: number }) => ({ view: t.uint8([settings.width]) }),
    },
  });
  expectTypeOf((await environment.reset()).observation.view).toEqualTypeOf<Tensor<"uint8">>();
});

test("an action that only some worlds have is typed", async () => {
  const sleeps = (settings: {
    naps?: boolean;
  }): { readonly sleep?: TensorSpec<"int32", readonly []> } =>
    settings.naps === true ? { sleep: t.int32() } : {};
  const environment = await connection.join("world", {
    as: { actions: (settings) => ({ move: t.int8(), ...sleeps(settings) }), observations: {} },
  });
  await environment.step({ move: 1, sleep: 3 });
  // @ts-expect-error an int32 is a number
  await environment.step({ sleep: "long" });
});

test("a union of specs types actions and observations as unions", async () => {
  const scout = {
    actions: { look: t.float32([2]) },
    observations: { view: t.uint8([8, 8]), reward: t.float32() },
  };
  const miner = { actions: { dig: t.bool() }, observations: { ore: t.int32() } };
  const environment = await connection.join("world", {
    as: {
      actions: ({ scouts }: { scouts: boolean }) => (scouts ? scout.actions : miner.actions),
      observations: ({ scouts }: { scouts: boolean }) =>
        scouts ? scout.observations : miner.observations,
    },
  });
  const { observation } = await environment.step({ dig: true });
  await environment.step({ look: [1, 2] });
  // @ts-expect-error neither alternative has this action
  await environment.step({ jump: true });
  expectTypeOf(observation).toExtend<{ view: Tensor<"uint8"> } | { ore: number }>();
  if ("ore" in observation) {
    expectTypeOf(observation.ore).toEqualTypeOf<number>();
  } else {
    expectTypeOf(observation.view).toEqualTypeOf<Tensor<"uint8">>();
  }
  expectTypeOf(observation).not.toHaveProperty("reward");
  const chosen = await connection.join("world", {
    as: {
      actions: ({ scouts }: { scouts: boolean }) =>
        scouts ? { look: t.int8() } : { dig: t.bool() },
      observations: ({ scouts }: { scouts: boolean }) =>
        scouts ? { view: t.int8() } : { ore: t.int8() },
    },
    observations: ["ore"],
  });
  const step = await chosen.step({ dig: true });
  expectTypeOf(step.observation.ore).toEqualTypeOf<number | undefined>();
});

test("without a definition actions and observations are untyped", async () => {
  const environment = await connection.join("world");
  expectTypeOf(environment).toEqualTypeOf<Environment>();
  const step = await environment.step({ move: 1, arm: { turn: [1, 2] } });
  expectTypeOf(step).toEqualTypeOf<TimeStep<DynamicObservation>>();
  expectTypeOf(step.observation["view"]).toEqualTypeOf<
    Scalar | Tensor | DynamicObservation | undefined
  >();
});

test("a copy of a time step with another step type is a time step", async () => {
  const environment = await connection.join("world", { as: definition });
  let step = await environment.reset();
  step = { ...step, stepType: "last" };
  expectTypeOf(step.last()).toEqualTypeOf<boolean>();
});

test("connection.send returns a response of the request's kind", async () => {
  const response = await connection.send({
    case: "step",
    value: { actions: [], requestedObservations: [1] },
  });
  expectTypeOf(response.case).toEqualTypeOf<"step">();
});
