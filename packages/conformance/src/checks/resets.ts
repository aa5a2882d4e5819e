// SPDX-License-Identifier: Apache-2.0

import type { AgentConnection } from "../agent-connection.ts";
import { type Check, checksOf } from "../check.ts";
import { expectThat } from "../mismatch.ts";
import { requests } from "../requests.ts";
import { ofAnotherDType, strangeUid, uidsOf } from "../samples.ts";
import type { Stage } from "../stage.ts";
import { needsAll, needsSeveral, needsWaiting } from "./needs.ts";

/** Returns the state in an agent's next response. */
async function next(
  stage: Stage,
  agent: AgentConnection,
  beside: readonly AgentConnection[] = [],
): Promise<string> {
  const before = agent.states.length;
  await stage.drive([agent, ...beside], () => agent.states.length > before);
  return agent.states[before] ?? "nothing";
}

/** Steps an agent until it receives INTERRUPTED, unless its blocked step already returned it. */
async function interrupted(stage: Stage, agent: AgentConnection): Promise<void> {
  const state = agent.states.at(-1) === "INTERRUPTED" ? "INTERRUPTED" : await next(stage, agent);
  expectThat(state === "INTERRUPTED", "INTERRUPTED", state);
}

/** Steps agents until each has received INTERRUPTED once, then RUNNING. */
async function interruptedOnce(stage: Stage, agents: readonly AgentConnection[]): Promise<void> {
  const later = (): string[][] =>
    agents.map(({ states }) => {
      const at = states.indexOf("INTERRUPTED");
      return at < 0 ? [] : states.slice(at);
    });
  const starts = agents.map(({ states }) => states.length);
  const overdue = (): boolean =>
    agents.some(({ states }, i) => states.length > (starts[i] ?? 0) + 4);
  await stage.drive(agents, () => overdue() || later().every((states) => states.length >= 2));
  for (const states of later()) {
    const count = states.filter((state) => state === "INTERRUPTED").length;
    expectThat(count === 1, "INTERRUPTED once for each other agent", states.join(", "));
    const after = states[states.indexOf("INTERRUPTED") + 1] ?? "RUNNING";
    expectThat(after === "RUNNING", "RUNNING after it", states.join(", "));
  }
}

/** Resets a world of two agents while `one` ends its sequence with `end` instead of a step. */
async function endBy(
  stage: Stage,
  end: (agent: AgentConnection) => Promise<void> | void,
): Promise<void> {
  const { world, one, other } = await stage.twoRunning();
  const host = await stage.connect();
  const reset = host.resetWorld(world, stage.config.resetWorld);
  await stage.staysOpen(reset, "the reset of the world");
  await end(one);
  await interrupted(stage, other);
  await reset;
}

/** Behaviours 38–44: resets of an agent, and of a world. */
export const resetChecks: readonly Check[] = [
  ...checksOf(38, 'reference.md, "ResetRequest/Response"', {
    "ignores-the-next-action": {
      title: "After a reset, the next step ignores its actions and returns RUNNING.",
      async run(stage) {
        const agent = await stage.agent();
        await agent.step();
        await agent.reset();
        const tensor = ofAnotherDType({ dtype: "int8", shape: [] });
        const { state } = await agent.step([], [{ uid: strangeUid(agent.actions), tensor }]);
        expectThat(state === "RUNNING", "RUNNING after the reset", state);
      },
    },
    "this-agent-only": {
      title: "A reset affects one agent: the others stay RUNNING.",
      notFor: needsAll(needsSeveral(2), ({ onReset }) =>
        onReset === "respawn" ? undefined : '"onReset" of the config is not "respawn"',
      ),
      async run(stage) {
        const { one, other } = await stage.twoRunning();
        await one.reset();
        const from = other.states.length;
        await stage.drive([one, other], () => other.states.length >= from + 2);
        for (const state of other.states.slice(from)) {
          expectThat(state === "RUNNING", "RUNNING for the other agent", state);
        }
      },
    },
    "waits-for-the-others": {
      title:
        "A reset waits until the sequence of the other agents ends, for example by their resets.",
      notFor: needsAll(needsSeveral(2), ({ onReset }) =>
        onReset === "wait" ? undefined : '"onReset" of the config is not "wait"',
      ),
      async run(stage) {
        const { one, other } = await stage.twoRunning();
        const reset = one.reset();
        await stage.staysOpen(reset, "the reset");
        await other.reset();
        await reset;
        const state = await next(stage, one, [other]);
        expectThat(state === "RUNNING", "RUNNING after the reset", state);
      },
    },
  }),
  ...checksOf(39, 'reference.md, "ResetRequest/Response"', {
    twice: {
      title:
        "A reset of an agent that is not RUNNING is a no-op: before its first step, and twice.",
      async run(stage) {
        const agent = await stage.agent();
        await agent.reset();
        await agent.reset();
        await agent.step();
        await agent.reset();
        await agent.reset();
        const { state } = await agent.step();
        expectThat(state === "RUNNING", "RUNNING", state);
      },
    },
  }),
  ...checksOf(40, 'reference.md, "ResetRequest/Response"', {
    "resends-specs": {
      title: "A reset returns the specs of the join if nothing changed them.",
      async run(stage) {
        const agent = await stage.agent();
        const describe = (): string =>
          JSON.stringify([agent.actions.entries, agent.observations.entries], (_key, value) =>
            typeof value === "bigint" ? `${value}n` : value,
          );
        const joined = describe();
        await agent.step();
        const { specs } = await agent.accepted<"reset">(requests.reset());
        agent.learn(specs);
        expectThat(describe() === joined, `the specs of the join: ${joined}`, describe);
      },
    },
  }),
  ...checksOf(41, 'reference.md, "ResetWorldRequest/Response"', {
    "tells-each-once": {
      title: "A reset of the world waits until each RUNNING agent has received INTERRUPTED, once.",
      notFor: needsSeveral(2),
      async run(stage) {
        const { world, one, other } = await stage.twoRunning();
        const host = await stage.connect();
        const reset = host.resetWorld(world, stage.config.resetWorld);
        await stage.staysOpen(reset, "the reset of the world");
        await interruptedOnce(stage, [one, other]);
        await reset;
      },
    },
    "last-observations": {
      title: "An INTERRUPTED step returns the requested observations.",
      notFor: needsSeveral(2),
      async run(stage) {
        const { world, one } = await stage.twoRunning();
        const host = await stage.connect();
        const reset = host.resetWorld(world, stage.config.resetWorld);
        reset.catch(() => undefined);
        await stage.staysOpen(reset, "the reset of the world");
        const uids = uidsOf(one.observations);
        const { state, observations } = await one.step(uids);
        expectThat(state === "INTERRUPTED", "INTERRUPTED", state);
        const count = observations.length;
        expectThat(count === uids.length, `${uids.length} observations`, `${count}`);
      },
    },
    "caller-is-not-told": {
      title:
        "An agent that resets its world does not receive INTERRUPTED: its next step is RUNNING.",
      notFor: needsSeveral(2),
      async run(stage) {
        const { world, one, other } = await stage.twoRunning();
        const waits = !other.outstanding;
        const reset = one.resetWorld(world, stage.config.resetWorld);
        if (waits) {
          await stage.staysOpen(reset, "the reset of the world");
        }
        await interrupted(stage, other);
        await reset;
        const state = await next(stage, one, [other]);
        expectThat(state === "RUNNING", "RUNNING for the caller", state);
      },
    },
    "reset-instead-of-step": {
      title: "A reset of the world does not wait for an agent that resets itself.",
      notFor: needsSeveral(2),
      run: (stage) => endBy(stage, (agent) => agent.reset()),
    },
    "leave-instead-of-step": {
      title: "A reset of the world does not wait for an agent that leaves.",
      notFor: needsSeveral(2),
      run: (stage) => endBy(stage, (agent) => agent.leave()),
    },
    "idle-agent": {
      title: "An agent that is not RUNNING does not receive INTERRUPTED: its next step is RUNNING.",
      async run(stage) {
        const world = await stage.world();
        const agent = await stage.agent(world);
        const host = await stage.connect();
        await host.resetWorld(world, stage.config.resetWorld);
        const { state } = await agent.step();
        expectThat(state === "RUNNING", "RUNNING on the first step", state);
      },
    },
  }),
  ...checksOf(42, 'reference.md, "ResetWorldRequest/Response"', {
    "by-any-connection": {
      title: "A world can be reset by a connection that has not joined, and by a lone agent.",
      async run(stage) {
        const { world, agents } = await stage.running(1);
        const [agent] = agents as [AgentConnection];
        await agent.resetWorld(world, stage.config.resetWorld);
        const state = await next(stage, agent);
        expectThat(state === "RUNNING", "RUNNING for the caller", state);
        const host = await stage.connect();
        const reset = host.resetWorld(world, stage.config.resetWorld);
        await stage.staysOpen(reset, "the reset of the world");
        await agent.step();
        await reset;
      },
    },
    "unknown-world": {
      title: "A reset of an unknown world is an error.",
      async run(stage) {
        const connection = await stage.connect();
        const reset = requests.resetWorld("there is no world of this name");
        await connection.refused(reset, "a reset of an unknown world");
      },
    },
  }),
  ...checksOf(43, 'behaviours.md, "Resets"', {
    "dropped-stream": {
      title: "A reset of the world does not wait for an agent whose stream was lost.",
      notFor: needsSeveral(2),
      run: (stage) => endBy(stage, (agent) => agent.drop()),
    },
    "callers-share": {
      title: "Concurrent callers, agents or not, do not wait for each other.",
      notFor: needsSeveral(2),
      async run(stage) {
        const { world, agents } = await stage.running(2);
        const settings = stage.config.resetWorld ?? {};
        const busy = agents.filter(({ outstanding }) => outstanding);
        const idle = agents.filter((agent) => !busy.includes(agent));
        const callers = [...idle, await stage.connect(), await stage.connect()];
        const resets = callers.map((caller) => caller.resetWorld(world, settings));
        await Promise.all(busy.map((agent) => agent.keepStepping()));
        await Promise.all(resets);
        await stage.drive(agents, () => idle.every(({ states }) => states.length >= 2));
        for (const { states } of idle) {
          expectThat(!states.includes("INTERRUPTED"), "no INTERRUPTED for callers", states.join());
        }
      },
    },
  }),
  ...checksOf(44, 'behaviours.md, "Resets"', {
    "releases-blocked-steps": {
      title: "A reset of the world answers a blocked step with INTERRUPTED.",
      notFor: needsAll(needsSeveral(2), needsWaiting),
      async run(stage) {
        const { world, one, other } = await stage.twoRunning();
        const step = other.keepStepping();
        await stage.staysOpen(step, "a step that waits for the other agent");
        const reset = (await stage.connect()).resetWorld(world, stage.config.resetWorld);
        await step;
        const state = other.states.at(-1);
        expectThat(state === "INTERRUPTED", "INTERRUPTED for the blocked step", `${state}`);
        await one.step();
        await reset;
      },
    },
  }),
];
