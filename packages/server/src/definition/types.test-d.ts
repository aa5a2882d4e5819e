// SPDX-License-Identifier: Apache-2.0
import { type Tensor, t, tensor } from "@dm-env-rpc/tensor-codec";
import { describe, expectTypeOf, test } from "vitest";
import type { AgentId } from "./agent.ts";
import { defineEnvironment } from "./environment.ts";
import { withDefault } from "./settings.ts";
import { type ActionsOf, defineWorld, type World, type WorldDefinition } from "./world.ts";

const specs = { actions: { move: t.int8() }, observations: { at: t.int32([2]) } } as const;
const observe = { at: () => [0, 0] };

describe("behaviour 69: the compiler refuses a name that nothing reads", () => {
  test("in what create returns", () => {
    defineWorld({
      ...specs,
      name: "misspelled",
      // @ts-expect-error "stauts" is not a hook of a world
      create: () => ({ step() {}, observe, stauts: () => "running" }),
    });
    defineWorld({
      ...specs,
      name: "misspelled",
      // @ts-expect-error "strat" is not a hook of a world
      create: async () => ({ step() {}, observe, strat() {} }),
    });
    defineEnvironment({
      ...specs,
      name: "misspelled",
      create: () => ({
        reset: () => ({ at: [0, 0] }),
        step: () => ({ observation: { at: [0, 0] } }),
        // @ts-expect-error "clsoe" is not a hook of an environment
        clsoe() {},
      }),
    });
  });

  test("in what an environment's step returns", () => {
    defineEnvironment({
      ...specs,
      name: "unread",
      create: () => ({
        reset: () => ({ at: [0, 0] }),
        // @ts-expect-error "terminated" is not a property of an environment's step
        step: () => ({ observation: { at: [0, 0] }, terminated: true }),
      }),
    });
    defineEnvironment({
      ...specs,
      name: "unread",
      // @ts-expect-error "done" is not a property of an environment's step
      create: async ({ random }) => ({
        reset: () => ({ at: [0, 0] }),
        step: async () =>
          random.next() < 0.5
            ? { observation: { at: [0, 0] } }
            : { observation: { at: [0, 0] }, done: true },
      }),
    });
    defineEnvironment({
      ...specs,
      name: "untyped",
      create: () => ({
        reset: () => ({ at: [0, 0] }),
        // A result of type any is checked when the environment steps.
        step: () => JSON.parse('{ "observation": { "at": [0, 0] } }'),
      }),
    });
  });

  test("in a definition", () => {
    const create = () => ({ step() {}, observe });
    // @ts-expect-error onLeave is meant
    defineWorld({ ...specs, name: "misspelled", onLeav: "block", create });
    defineEnvironment({
      ...specs,
      name: "misspelled",
      // @ts-expect-error every agent is alone in its environment
      onLeave: "block",
      create: () => ({
        reset: () => ({ at: [0, 0] }),
        step: () => ({ observation: { at: [0, 0] } }),
      }),
    });
  });

  test("but not the private members of a class", () => {
    class Walk {
      #x = 0;
      readonly observe = { at: () => tensor("int32", [2], Int32Array.of(this.#x, 0)) };
      step(actions: ReadonlyMap<AgentId, ActionsOf<typeof specs.actions>>) {
        for (const { move = 0 } of actions.values()) {
          this.walk(move);
        }
      }
      // biome-ignore lint/plugin: a member that only TypeScript hides is not a hook either.
      private walk(dx: number) {
        this.#x += dx;
      }
    }
    const walk = defineWorld({ ...specs, name: "walk", create: () => new Walk() });
    expectTypeOf(walk).toExtend<WorldDefinition>();
    class Open extends Walk {
      steps = 0;
    }
    // @ts-expect-error "steps" is not a hook of a world
    defineWorld({ ...specs, name: "walk", create: () => new Open() });
  });
});

test("hooks are typed by specs that are functions of settings", () => {
  defineWorld({
    name: "typed",
    joinSettings: { width: withDefault(t.int32(), 2) },
    actions: ({ join }) => ({ push: t.float32([join.width]) }),
    observations: ({ join }) => ({ row: t.int32([join.width]), self: { health: t.float32() } }),
    create({ settings }) {
      expectTypeOf(settings).toEqualTypeOf<Record<never, never>>();
      return {
        step(actions) {
          for (const { push } of actions.values()) {
            expectTypeOf(push).toEqualTypeOf<Tensor<"float32"> | undefined>();
          }
        },
        observe: {
          row: (agent) => [agent],
          self: {
            health(agent) {
              expectTypeOf(agent).toEqualTypeOf<AgentId>();
              return 1;
            },
          },
        },
      };
    },
  });
});

describe("specs with alternatives for different agents", () => {
  const scout = {
    actions: { move: t.int8(), look: t.float32([2]) },
    observations: { view: t.uint8([8, 8]), self: { health: t.float32(), speed: t.float32() } },
  };
  const miner = {
    actions: { move: t.int64(), dig: t.bool() },
    observations: { ore: t.int32(), self: { health: t.float32(), load: t.int32() } },
  };
  const joinSettings = { role: withDefault(t.string(), "scout") };

  test("give `step` the actions of all alternatives", () => {
    defineWorld({
      name: "mine",
      joinSettings,
      actions: ({ join }) => (join.role === "scout" ? scout.actions : miner.actions),
      observations: {},
      create({ random }) {
        return {
          step(actions) {
            for (const { move, look, dig } of actions.values()) {
              expectTypeOf(move).toEqualTypeOf<number | bigint | undefined>();
              expectTypeOf(look).toEqualTypeOf<Tensor<"float32"> | undefined>();
              expectTypeOf(dig).toEqualTypeOf<boolean | undefined>();
            }
            random.next();
          },
          observe: {},
        };
      },
    });
  });

  test("require the observers of all alternatives", () => {
    const rules = {
      name: "mine",
      joinSettings,
      actions: {},
      observations: ({ join }: { join: { role: string } }) =>
        join.role === "scout" ? scout.observations : miner.observations,
    };
    const self = { health: () => 1, speed: () => 2, load: () => 3 };
    const mine = defineWorld({
      ...rules,
      create: () => ({
        step() {},
        observe: { view: () => new Uint8Array(64), ore: () => 1, self },
      }),
    });
    expectTypeOf(mine).toExtend<WorldDefinition>();
    defineWorld({
      ...rules,
      // @ts-expect-error miners observe their ore
      create: () => ({ step() {}, observe: { view: () => new Uint8Array(64), self } }),
    });
    defineWorld({
      ...rules,
      create: () => ({
        step() {},
        // @ts-expect-error an int32 is a number
        observe: { view: () => new Uint8Array(64), ore: () => "", self },
      }),
    });
  });

  test("can be written inline in the conditional", () => {
    defineWorld({
      name: "mine",
      joinSettings,
      actions: ({ join }) => (join.role === "scout" ? { look: t.int8() } : { dig: t.bool() }),
      observations: ({ join }) => (join.role === "scout" ? { view: t.int8() } : { ore: t.int8() }),
      create: ({ random }) => ({
        step(actions) {
          random.next();
          for (const { look, dig } of actions.values()) {
            expectTypeOf(look).toEqualTypeOf<number | undefined>();
            expectTypeOf(dig).toEqualTypeOf<boolean | undefined>();
          }
        },
        observe: { view: () => 1, ore: () => 2 },
      }),
    });
  });
});

test("`create` may return an object that was declared as a World", () => {
  const hooks: World<object, object, object, typeof specs.actions, typeof specs.observations> = {
    step: (actions) => {
      for (const action of actions.values()) {
        expectTypeOf(action.move).toEqualTypeOf<number | undefined>();
      }
    },
    observe,
  };
  expectTypeOf(
    defineWorld({ ...specs, name: "hooks", create: () => hooks }),
  ).toExtend<WorldDefinition>();
});
