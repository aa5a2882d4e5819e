// SPDX-License-Identifier: Apache-2.0

import type { AgentConnection } from "../agent-connection.ts";
import { type Check, checksOf } from "../check.ts";
import { expectThat } from "../mismatch.ts";
import { requests } from "../requests.ts";
import { strangeUid, uidsOf } from "../samples.ts";
import { needsAll, needsClock, needsNoWaiting, needsSeveral, needsShortSequence } from "./needs.ts";

/** Behaviours 60–62 and 65: sequences that agents share. */
export const sequenceChecks: readonly Check[] = [
  ...checksOf(60, 'behaviours.md, "Sequences that agents share"', {
    "first-steps-together": {
      title: "A sequence begins when every agent that has joined has sent its first step.",
      notFor: needsAll(needsSeveral(2), ({ clock }) =>
        clock === "realtime"
          ? "in real time a sequence begins with the agents that have stepped"
          : undefined,
      ),
      async run(stage) {
        const { agents } = await stage.agents(2);
        const first = agents[0]?.keepStepping() ?? Promise.resolve();
        await stage.staysOpen(first, "a first step");
        await stage.drive(agents, () => agents.every(({ states }) => states.length > 0));
        for (const { states } of agents) {
          expectThat(states[0] === "RUNNING", "RUNNING on first steps", `${states[0]}`);
        }
      },
    },
  }),
  ...checksOf(61, 'behaviours.md, "Sequences that agents share"', {
    "told-at-the-next-step": {
      title:
        "An agent that was idle when its sequence ended receives the end with its next step, with observations.",
      notFor: needsAll(needsSeveral(2), needsShortSequence, needsNoWaiting),
      async run(stage) {
        const { create } = stage.config.shortSequence ?? { create: {} };
        const { agents } = await stage.running(2, await stage.world(create));
        const [busy, idle] = agents as [AgentConnection, AgentConnection];
        while (busy.states.at(-1) === "RUNNING") {
          await busy.step();
        }
        const uids = uidsOf(idle.observations);
        const { state, observations } = await idle.step(uids);
        expectThat(state !== "RUNNING", "the end of the sequence", state);
        const count = observations.length;
        expectThat(count === uids.length, `${uids.length} observations`, `${count}`);
        await stage.drive(agents, () => idle.states.length >= 3 && !busy.outstanding);
        expectThat(idle.states[2] === "RUNNING", "RUNNING after it", `${idle.states[2]}`);
      },
    },
  }),
  ...checksOf(62, 'behaviours.md, "Sequences that agents share"', {
    "errors-are-no-arrival": {
      title: "A step that is an error does not count as the agent's step.",
      notFor: needsAll(needsSeveral(2), needsClock("lockstep")),
      async run(stage) {
        const { agents } = await stage.running(2);
        const [one, other] = agents as [AgentConnection, AgentConnection];
        const step = other.step();
        const strange = strangeUid(one.observations);
        await one.refused(requests.step([strange], []), "an unknown observation");
        await stage.staysOpen(step, "the step of the other agent");
        await one.step();
        await step;
      },
    },
    "late-joiner": {
      title:
        "An agent that joins late receives RUNNING on its first step and does not block the others forever.",
      notFor: needsSeveral(2),
      async run(stage) {
        const { world, agents } = await stage.running(1);
        const late = await stage.agent(world);
        const all = [...agents, late];
        await stage.drive(all, () => all.every(({ states }) => states.length >= 3));
        const [first] = late.states;
        expectThat(first === "RUNNING", "RUNNING on its first step", `${first}`);
      },
    },
  }),
  ...checksOf(65, 'behaviours.md, "Real time and refusals"', {
    "silent-agent": {
      title: "In real time, sequences begin and end without waiting for a silent agent.",
      notFor: needsAll(needsSeveral(2), needsShortSequence, needsClock("realtime")),
      async run(stage) {
        const { create } = stage.config.shortSequence ?? { create: {} };
        const { agents } = await stage.agents(2, await stage.world(create));
        const [busy] = agents as [AgentConnection];
        const isEnd = (state: string): boolean => state !== "RUNNING";
        const deadline = performance.now() + stage.timeoutMs;
        while (busy.states.filter(isEnd).length < 2) {
          const steps = busy.states.length;
          expectThat(
            performance.now() < deadline,
            "two ends beside a silent agent",
            `${steps} steps`,
          );
          await busy.step();
        }
      },
    },
  }),
];
