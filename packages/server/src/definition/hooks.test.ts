// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { connectPeer } from "../../testing/peer.ts";
import { createEnvironmentServer } from "../host/environment-server.ts";
import type { AgentId } from "./agent.ts";
import { defineEnvironment } from "./environment.ts";
import { defineWorld, type UntypedWorld, type UntypedWorldDefinition } from "./world.ts";

const world = defineWorld({
  name: "world",
  actions: {},
  observations: {},
  create: () => ({ step() {}, observe: {} }),
});

/** A world as JavaScript may return it, without type checks of its hooks. */
const returning = (hooks: object): UntypedWorldDefinition => ({
  ...world,
  create: () => Object.assign(hooks, { step() {}, observe: {} }) as UntypedWorld,
});

async function create(definition: UntypedWorldDefinition): Promise<string> {
  const server = createEnvironmentServer({ worlds: [definition] });
  return connectPeer(server)
    .createWorld()
    .then(() => "created", String);
}

class Walk {
  x = 0;
  restart() {
    this.x = 0;
  }
  get strat(): never {
    throw new Error("a getter is not called");
  }
}

describe("behaviour 69: a hook that no world has is refused when the world is made", () => {
  const misspelled: readonly [name: string, meant: string][] = [
    ["strat", "start"],
    ["stauts", "status"],
    ["Join", "join"],
    ["onLeave", "leave"],
    ["propertis", "properties"],
    ["on_destroy", "destroy"],
  ];
  it.each(misspelled)("%s, with the suggestion %s", async (name, meant) => {
    expect(await create(returning({ [name]: () => {} }))).toMatch(
      new RegExp(`^Error: 13: .*unknown name "${name}": .*; did you mean "${meant}"; leave it`),
    );
  });

  it("one with no similar name, with a list of all hooks", async () => {
    expect(await create(returning({ board: [] }))).toMatch(
      /unknown name "board": expected a world with only the names join, leave, .*in a variable/,
    );
  });

  it("in the result of a promise", async () => {
    const late = returning({ strat() {} });
    const { create: make } = late;
    const asynchronous = { ...late, create: async (context: never) => make(context) };
    expect(await create(asynchronous)).toMatch(/did you mean "start"/);
  });

  it("in a class, which may have methods of its own", async () => {
    expect(await create(returning(new Walk()))).toBe("created");
    class Misspelled extends Walk {
      stauts() {}
    }
    expect(await create(returning(new Misspelled()))).toMatch(/"stauts".*did you mean "status"/);
    class Both extends Misspelled {
      status() {}
    }
    expect(await create(returning(new Both()))).toBe("created");
  });

  it("in the environment of each agent, when it joins", async () => {
    const environment = defineEnvironment({
      name: "environment",
      actions: {},
      observations: {},
      create: () =>
        Object.assign({ clsoe() {} } as object, {
          reset: () => ({}),
          step: () => ({ observation: {} }),
        }),
    });
    const server = createEnvironmentServer({ worlds: [environment] });
    const peer = connectPeer(server);
    await expect(peer.join(await peer.createWorld())).rejects.toThrow(
      /unknown name "clsoe": expected an environment .*; did you mean "close"/,
    );
  });

  it.each([{}, { batch: 2 }])(
    "in the first result of an environment's step, joined with %o",
    async (settings) => {
      const environment = defineEnvironment({
        name: "environment",
        actions: {},
        observations: {},
        create: () => ({
          reset: () => ({}),
          step: () => Object.assign({ terminated: true } as object, { observation: {} }),
        }),
      });
      const failures: unknown[] = [];
      const server = createEnvironmentServer({
        worlds: [environment],
        onEvent: (event) => failures.push("error" in event && event.error),
      });
      const peer = connectPeer(server);
      await peer.join(await peer.createWorld(), settings);
      await peer.step();
      await peer.step().catch(() => {});
      expect(String(failures)).toMatch(
        /unknown name "terminated": expected an environment's step with only the names observation, reward, state;/,
      );
    },
  );

  it("in a world with `perAgent`, when an agent joins", async () => {
    const server = createEnvironmentServer({
      worlds: [{ ...returning({ entre: (_agent: AgentId) => {} }), perAgent: true }],
    });
    const peer = connectPeer(server);
    await expect(peer.join(await peer.createWorld())).rejects.toThrow(/did you mean "enter"/);
  });

  it("in the definition of an environment, where it is defined", () => {
    const definition = {
      name: "environment",
      actions: {},
      observations: {},
      onDestory: "drain",
      create: () => ({ reset: () => ({}), step: () => ({ observation: {} }) }),
    };
    expect(() => defineEnvironment(definition)).toThrow(
      /^the environment "environment": unknown name "onDestory": .*; did you mean "onDestroy"/,
    );
  });
});
