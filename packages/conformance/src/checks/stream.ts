// SPDX-License-Identifier: Apache-2.0

import { textOf } from "../agent-connection.ts";
import { type Check, checksOf } from "../check.ts";
import { agentCounts } from "../config.ts";
import { expectThat } from "../mismatch.ts";
import { requests } from "../requests.ts";
import { uidsOf } from "../samples.ts";
import { needsAll, needsSeveral, needsShortSequence } from "./needs.ts";

/** Behaviours 1–5 and 8: one stream, its requests and its responses. */
export const streamChecks: readonly Check[] = [
  ...checksOf(1, 'overview.md, "Protocol overview"', {
    "many-connections": {
      title: "Several connections are open at once, each with its own responses.",
      async run(stage) {
        const connections = await Promise.all([stage.connect(), stage.connect(), stage.connect()]);
        await Promise.all(connections.map((connection) => connection.lives()));
        await connections[0]?.close();
        await connections[1]?.lives();
      },
    },
  }),
  ...checksOf(2, 'overview.md, "Protocol overview"', {
    "one-response-each": {
      title: "Each request has exactly one response, of its kind or an error.",
      async run(stage) {
        const agent = await stage.agent();
        const [observation] = uidsOf(agent.observations);
        await agent.step();
        await agent.step(observation === undefined ? [] : [observation]);
        await agent.refused(requests.join("", {}), "a second join");
        await agent.reset();
        await agent.leave();
        await agent.leave();
        agent.end();
        const error = await agent.closed;
        expectThat(
          agent.unsolicited === 0,
          "no response without a request",
          `${agent.unsolicited}`,
        );
        expectThat(error === undefined, "status OK at the end", String(error));
      },
    },
  }),
  ...checksOf(3, 'overview.md, "Streaming"', {
    "in-flight": {
      title: "All pipelined requests are answered, in order.",
      async run(stage) {
        const world = await stage.world();
        const connection = await stage.connect();
        await stage.accompany(world, 1);
        const join = connection.send(requests.join(world, stage.config.join ?? {}));
        const steps = Array.from({ length: 40 }, () => connection.send(requests.step([], [])));
        const tail = [connection.send(requests.reset()), connection.send(requests.step([], []))];
        // A leave cancels a step that waits for other agents, so it must not follow one (behaviour 67).
        if (agentCounts(stage.config).min > 1) {
          await Promise.all(tail);
        }
        tail.push(connection.send(requests.leave()), connection.send(requests.step([], [])));
        const kinds = (await Promise.all([join, ...steps, ...tail])).map(
          (response) => response.case ?? "nothing",
        );
        const expected = ["joinWorld", ...steps.map(() => "step"), "reset", "step", "leaveWorld"];
        expectThat(
          kinds.join() === [...expected, "error"].join(),
          "answers to join, 40 steps, reset, step, leave, and an error for a last step, in that order",
          kinds.join(", "),
        );
      },
    },
    "order-of-steps": {
      title: "Each pipelined step returns the observations that it requests.",
      async run(stage) {
        const agent = await stage.agent();
        const uids = uidsOf(agent.observations);
        await agent.step();
        const asked = Array.from({ length: 3 * uids.length }, (_, i) => uids.slice(0, i % 3));
        const answers = await Promise.all(asked.map((some) => agent.step(some)));
        answers.forEach(({ observations }, i) => {
          const expected = asked[i] ?? [];
          const received = observations.map(({ uid }) => uid);
          expectThat(
            received.length === expected.length && expected.every((uid) => received.includes(uid)),
            `observations ${expected.join()} for step ${i}`,
            received.join() || "none",
          );
        });
      },
    },
    "order-of-queued-steps": {
      title: "Steps that wait for other agents are also answered in order.",
      notFor: needsSeveral(2),
      async run(stage) {
        const { one, other } = await stage.twoRunning();
        const uids = uidsOf(one.observations);
        const asked = Array.from({ length: 6 }, (_, i) => uids.slice(0, i % 4));
        const steps = asked.map((some) => one.step(some));
        const answers = Promise.all(steps);
        await stage.drive([other], answers);
        const received = (await answers).map(({ observations }) => observations.length).join();
        const expected = asked.map(({ length }) => length).join();
        expectThat(
          received === expected,
          `as many observations as requested: ${expected}`,
          received,
        );
      },
    },
  }),
  ...checksOf(4, 'overview.md, "States"', {
    "step-not-joined": {
      title: "A step is an error before a join, and after a leave.",
      async run(stage) {
        const connection = await stage.connect();
        await connection.refused(requests.step([], []), "a step while not joined");
        const world = await stage.world();
        await stage.accompany(world, 1);
        await connection.join(world, stage.config.join ?? {});
        await connection.step();
        await connection.leave();
        await connection.refused(requests.step([], []), "a step after a leave");
      },
    },
    "reset-not-joined": {
      title: "A reset is an error before a join, and after a leave.",
      async run(stage) {
        const connection = await stage.connect();
        await connection.refused(requests.reset(), "a reset while not joined");
        await connection.join(await stage.world(), stage.config.join ?? {});
        await connection.leave();
        await connection.refused(requests.reset(), "a reset after a leave");
      },
    },
  }),
  ...checksOf(5, 'overview.md, "States"', {
    transitions: {
      title: "Two consecutive steps never both return a state other than RUNNING.",
      notFor: needsShortSequence,
      async run(stage) {
        const { create, count } = stage.config.shortSequence ?? { create: {}, count: 0 };
        const agent = await stage.agent(await stage.world(create));
        await Promise.all(Array.from({ length: 3 * (count + 2) }, () => agent.step()));
        const { states } = agent;
        states.forEach((state, i) => {
          const legal = state === "RUNNING" || state === "TERMINATED" || state === "INTERRUPTED";
          expectThat(legal, "RUNNING, TERMINATED or INTERRUPTED", state);
          const twice = state !== "RUNNING" && states[i - 1] !== "RUNNING";
          expectThat(!twice, "RUNNING as the first state and between two ends", () =>
            states.join(", "),
          );
        });
      },
    },
  }),
  ...checksOf(8, 'behaviours.md, "Stream"', {
    "half-close": {
      title: "After a half-close, all queued requests are answered, then the stream ends with OK.",
      async run(stage) {
        const agent = await stage.agent();
        const steps = Array.from({ length: 10 }, () => agent.send(requests.step([], [])));
        agent.end();
        for (const step of steps) {
          const response = await step;
          expectThat(response.case === "step", "an answer to every step", textOf(response));
        }
        const error = await agent.closed;
        expectThat(error === undefined, "status OK at the end", String(error));
      },
    },
    "half-close-while-waiting": {
      title: "After a half-close, steps that wait for other agents are also answered.",
      notFor: needsSeveral(2),
      async run(stage) {
        const { one, other } = await stage.twoRunning();
        const steps = Array.from({ length: 4 }, () => one.step());
        one.end();
        const answers = Promise.all(steps);
        await stage.drive([other], answers);
        await answers;
        const error = await one.closed;
        expectThat(error === undefined, "status OK at the end", String(error));
      },
    },
    "half-close-leaves": {
      title: "After a half-close the agent has left its world.",
      notFor: ({ worlds }) => (worlds === "none" ? "no world can be created" : undefined),
      async run(stage) {
        const world = await stage.world();
        const agent = await stage.agent(world);
        await agent.step();
        agent.end();
        await agent.closed;
        await stage.dismiss(world);
        await (await stage.connect()).destroyWorld(world);
      },
    },
    "drop-leaves": {
      title: "An agent whose stream is lost does not block the others.",
      notFor: needsAll(needsSeveral(2), ({ onLeave }) =>
        onLeave === "block" ? '"onLeave" of the config is "block"' : undefined,
      ),
      async run(stage) {
        const { agents } = await stage.running(2);
        const [first, second] = agents;
        first?.drop();
        if (second === undefined) {
          return;
        }
        const before = second.states.length;
        await stage.drive([second], () => second.states.length >= before + 3);
      },
    },
  }),
];
