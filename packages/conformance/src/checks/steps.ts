// SPDX-License-Identifier: Apache-2.0
import { elementCount, isVariable, type TensorSpec, unpackFor } from "@dm-env-rpc/tensor-codec";
import type { UidTensor } from "@dm-env-rpc/tensor-codec/wire";
import { type Check, checksOf } from "../check.ts";
import { expectThat, Mismatch } from "../mismatch.ts";
import { requests } from "../requests.ts";
import { act, ofAnotherDType, strangeUid, uidsOf } from "../samples.ts";
import { needsAll, needsClock, needsNoWaiting, needsSeveral, needsShortSequence } from "./needs.ts";

function checkObservation(name: string, spec: TensorSpec, { tensor }: UidTensor): void {
  expectThat(tensor.dtype === spec.dtype, `"${name}" as ${spec.dtype}`, tensor.dtype);
  const { shape } = tensor;
  const fits =
    shape.length === spec.shape.length &&
    shape.every((size, i) => size === spec.shape[i] || (spec.shape[i] ?? 0) < 0);
  expectThat(fits, `"${name}" of shape [${spec.shape}]`, `[${shape}]`);
  const { length } = tensor.data;
  const whole = length === 1 || isVariable(shape) || length === elementCount(shape);
  expectThat(whole, `as many elements in "${name}" as [${shape}] has, or one`, `${length}`);
  try {
    unpackFor(tensor, spec, name);
  } catch (error) {
    throw new Mismatch(`"${name}" to fit its spec`, String(error));
  }
}

/** Behaviours 31–37: steps, and time. */
export const stepChecks: readonly Check[] = [
  ...checksOf(31, 'reference.md, "StepRequest/Response"', {
    "nothing-requested": {
      title: "Only requested observations are returned.",
      async run(stage) {
        const agent = await stage.agent();
        for (const expected of [[], uidsOf(agent.observations).slice(0, 1)]) {
          const { observations } = await agent.step(expected);
          const received = observations.map(({ uid }) => uid).join();
          expectThat(
            received === expected.join(),
            `observations ${expected.join() || "none"}`,
            received || "none",
          );
        }
      },
    },
  }),
  ...checksOf(32, 'reference.md, "StepRequest/Response"', {
    "first-step": {
      title:
        "The first step ignores its actions, even unknown ones, and returns RUNNING with the requested observations.",
      async run(stage) {
        const agent = await stage.agent();
        const [entry] = agent.actions.entries;
        const uids = uidsOf(agent.observations);
        const actions = [
          { uid: strangeUid(agent.actions), tensor: ofAnotherDType({ dtype: "int8", shape: [] }) },
          ...(entry === undefined ? [] : [act(entry, ofAnotherDType(entry.spec))]),
        ];
        const { state, observations } = await agent.step(uids, actions);
        expectThat(state === "RUNNING", "RUNNING on the first step", state);
        const count = observations.length;
        expectThat(count === uids.length, `${uids.length} observations`, `${count}`);
      },
    },
    "first-step-of-the-next": {
      title: "The first step of the next sequence also ignores its actions and returns RUNNING.",
      notFor: needsShortSequence,
      async run(stage) {
        const { create, count } = stage.config.shortSequence ?? { create: {}, count: 0 };
        const agent = await stage.agent(await stage.world(create));
        await agent.step();
        while (agent.states.at(-1) === "RUNNING" && agent.states.length < count + 2) {
          await agent.step();
        }
        const tensor = ofAnotherDType({ dtype: "int8", shape: [] });
        const { state } = await agent.step([], [{ uid: strangeUid(agent.actions), tensor }]);
        expectThat(state === "RUNNING", "RUNNING on the first step after the end", state);
      },
    },
  }),
  ...checksOf(33, 'reference.md, "StepRequest/Response"', {
    "across-sequences": {
      title: "Pipelined steps continue from one sequence to the next.",
      notFor: needsShortSequence,
      async run(stage) {
        const { create, count } = stage.config.shortSequence ?? { create: {}, count: 0 };
        const agent = await stage.agent(await stage.world(create));
        const steps = Array.from({ length: 2 * (count + 2) }, () => agent.step());
        await Promise.all(steps);
        const ends = agent.states.filter((state) => state !== "RUNNING").length;
        expectThat(ends >= 2, "the ends of two sequences", () => agent.states.join(", "));
      },
    },
  }),
  ...checksOf(34, 'reference.md, "StepRequest/Response"', {
    "sparse-actions": {
      title: "A step may have one action, or none.",
      async run(stage) {
        const agent = await stage.agent();
        await agent.step();
        await agent.step();
        for (const entry of agent.actions.entries) {
          await agent.step([], [act(entry)]);
        }
      },
    },
    "unknown-action": {
      title: "An action of an unknown UID is an error that names it.",
      async run(stage) {
        const agent = await stage.agent();
        await agent.step();
        const uid = strangeUid(agent.actions);
        const tensor = ofAnotherDType({ dtype: "int8", shape: [] });
        const step = requests.step([], [{ uid, tensor }]);
        const { message } = await agent.refused(step, "an unknown action");
        expectThat(message.includes(`${uid}`), `${uid} in the error`, `"${message}"`);
      },
    },
  }),
  ...checksOf(35, 'reference.md, "StepRequest/Response"', {
    "unknown-observation": {
      title:
        "A request for an unknown observation is an error that names its UID, even on a first step.",
      async run(stage) {
        const agent = await stage.agent();
        const uid = strangeUid(agent.observations);
        for (const when of ["first", "later"]) {
          const step = requests.step([uid], []);
          const { message } = await agent.refused(step, `an unknown observation on a ${when} step`);
          expectThat(message.includes(`${uid}`), `${uid} in the error`, `"${message}"`);
          await agent.step();
        }
      },
    },
    "repeated-observation": {
      title: "An observation that is requested twice is returned once.",
      async run(stage) {
        const agent = await stage.agent();
        const uids = uidsOf(agent.observations);
        const { observations } = await agent.step([...uids, ...uids]);
        const count = observations.length;
        expectThat(count === uids.length, `${uids.length} observations`, `${count}`);
      },
    },
  }),
  ...checksOf(36, 'reference.md, "StepRequest/Response"', {
    "observations-fit": {
      title: "Observations have the dtype and shape of their specs and are within their bounds.",
      async run(stage) {
        const agent = await stage.agent();
        const uids = uidsOf(agent.observations);
        for (let i = 0; i < 3; i++) {
          const { observations } = await agent.step(
            uids,
            agent.actions.entries.map((entry) => act(entry)),
          );
          for (const observation of observations) {
            const entry = agent.observations.byUid.get(observation.uid);
            if (entry === undefined) {
              throw new Mismatch("only requested observations", `UID ${observation.uid}`);
            }
            checkObservation(entry.name, entry.spec, observation);
          }
        }
      },
    },
  }),
  ...checksOf(37, 'reference.md, "Time"', {
    "all-together": {
      title: "In lockstep, an agent's step waits for the other agents' steps.",
      notFor: needsAll(needsSeveral(2), needsClock("lockstep")),
      async run(stage) {
        const { agents } = await stage.running(2);
        const [one, other] = agents;
        const step = one?.step() ?? Promise.resolve();
        await stage.staysOpen(step, "a step");
        await other?.step();
        await step;
      },
    },
    "one-after-the-other": {
      title: "With turns, an agent's step waits while it is another agent's turn.",
      notFor: needsAll(needsSeveral(2), needsClock("turns")),
      async run(stage) {
        const { agents } = await stage.running(2);
        await stage.drive(agents, () => agents.every(({ states }) => states.length >= 4));
        const counts = agents.map(({ states }) => states.length);
        const apart = Math.max(...counts) - Math.min(...counts);
        expectThat(apart <= 1, "as many turns for each", counts.join(" and "));
        const waiting = agents.find(({ outstanding }) => outstanding);
        if (waiting === undefined) {
          throw new Mismatch(
            "one agent to wait while it is the other's turn",
            "no agent that waits",
          );
        }
        await stage.staysOpen(waiting.keepStepping(), "the step of the agent whose turn it is not");
        await stage.drive(agents, () => !waiting.outstanding);
      },
    },
    "does-not-wait": {
      title:
        "In real time and free running, an agent's step does not wait for the other agents' steps.",
      notFor: needsAll(needsSeveral(2), needsNoWaiting),
      async run(stage) {
        const { agents } = await stage.running(2);
        await agents[0]?.step();
        await agents[0]?.step();
        await agents[1]?.step();
      },
    },
    "others-wake": {
      title: "If agents choose when to wake up, a step waits while another agent is awake.",
      notFor: needsAll(needsSeveral(2), needsClock("wakeUp")),
      async run(stage) {
        const { one, other } = await stage.twoRunning();
        for (let round = 0; round < 2; round++) {
          const step = one.step();
          await stage.staysOpen(step, "the step of an agent that sleeps while another is awake");
          await other.step();
          await step;
        }
      },
    },
  }),
];
