// SPDX-License-Identifier: Apache-2.0
import { type Check, checksOf } from "../check.ts";
import { expectThat } from "../mismatch.ts";
import { requests } from "../requests.ts";
import { uidsOf } from "../samples.ts";
import { needsAll, needsCreate, needsManyWorlds, needsSeveral } from "./needs.ts";

const nowhere = "there is no world of this name";

/** Behaviours 22–30: creating, joining, leaving and destroying. */
export const worldChecks: readonly Check[] = [
  ...checksOf(22, 'reference.md, "CreateWorldRequest/Response"', {
    "unique-names": {
      title: "Each world has a unique name.",
      notFor: needsManyWorlds,
      async run(stage) {
        const [one, other] = [await stage.world(), await stage.world()];
        expectThat(one !== other, "two names", `"${one}" twice`);
      },
    },
    "one-at-a-time": {
      title:
        "On a server with one world, a second create is an error until the world is destroyed.",
      notFor: ({ worlds }) =>
        worlds === "one" ? undefined : '"worlds" of the config is not "one"',
      async run(stage) {
        const { create = {} } = stage.config;
        const connection = await stage.connect();
        const world = await stage.world();
        await connection.refused(requests.createWorld(create), "a second create");
        await connection.destroyWorld(world);
        stage.owns(await connection.createWorld(create));
      },
    },
  }),
  ...checksOf(23, 'reference.md, "CreateWorldRequest/Response"', {
    premade: {
      title: "A premade world can be joined without a create.",
      notFor: ({ premade }) =>
        premade === undefined ? 'the config has no "premade" world' : undefined,
      async run(stage) {
        await (await stage.agent(stage.config.premade)).step();
      },
    },
  }),
  ...checksOf(24, 'reference.md, "Multiple world support"', {
    independent: {
      title: "Worlds are independent of each other.",
      notFor: needsManyWorlds,
      async run(stage) {
        const [one, other] = [await stage.running(1), await stage.running(1)];
        const [bystander] = one.agents;
        const [agent] = other.agents;
        await agent?.reset();
        await agent?.resetWorld(other.world, stage.config.resetWorld ?? {});
        await agent?.leave();
        await stage.dismiss(other.world);
        await agent?.destroyWorld(other.world);
        const step = await bystander?.step();
        expectThat(step?.state === "RUNNING", "RUNNING in the other world", `${step?.state}`);
      },
    },
  }),
  ...checksOf(25, 'reference.md, "CreateWorldRequest/Response"', {
    "create-here-join-there": {
      title: "A world can be joined after the connection that created it has closed.",
      notFor: needsCreate,
      async run(stage) {
        const creator = await stage.connect();
        const world = await stage.world(undefined, creator);
        await creator.close();
        await (await stage.agent(world)).step();
      },
    },
  }),
  ...checksOf(26, 'reference.md, "Specs"', {
    "specs-by-uid": {
      title: "A join returns specs, and every observation can be requested by its UID.",
      async run(stage) {
        const agent = await stage.agent();
        const uids = uidsOf(agent.observations);
        const { observations } = await agent.step(uids);
        expectThat(
          observations.length === uids.length,
          `${uids.length} observations`,
          `${observations.length}`,
        );
      },
    },
  }),
  ...checksOf(27, 'reference.md, "JoinWorldRequest/Response"', {
    "join-twice": {
      title: "A join while joined is an error, and the agent stays in its world.",
      async run(stage) {
        const world = await stage.world();
        const agent = await stage.agent(world);
        await agent.step();
        await agent.refused(requests.join(world, stage.config.join ?? {}), "a join while joined");
        const { state } = await agent.step();
        expectThat(state === "RUNNING", "RUNNING as before", state);
      },
    },
    "unknown-world": {
      title: "A join of an unknown world is an error.",
      async run(stage) {
        const connection = await stage.connect();
        await connection.refused(requests.join(nowhere, {}), "a join of an unknown world");
      },
    },
    "full-world": {
      title: "A join of a full world is an error until an agent leaves.",
      notFor: needsAll(needsCreate, ({ fullWorld }) =>
        fullWorld === undefined ? 'the config has no "fullWorld"' : undefined,
      ),
      async run(stage) {
        const { create, count } = stage.config.fullWorld ?? { create: {}, count: 1 };
        const { world, agents } = await stage.agentsAlone(count, await stage.world(create));
        const late = await stage.connect();
        const join = requests.join(world, stage.config.join ?? {});
        await late.refused(join, "a join of a full world");
        await agents[0]?.leave();
        await late.accepted<"joinWorld">(join);
      },
    },
  }),
  ...checksOf(28, 'reference.md, "JoinWorldRequest/Response"', {
    "enough-agents": {
      title: "A first step waits until enough agents have joined.",
      notFor: needsAll(needsCreate, ({ minAgents }) =>
        minAgents === undefined ? 'the config has no "minAgents"' : undefined,
      ),
      async run(stage) {
        const { create, count } = stage.config.minAgents ?? { create: {}, count: 1 };
        const { world, agents } = await stage.agentsAlone(count - 1, await stage.world(create));
        const steps = agents.map((agent) => agent.keepStepping());
        await stage.staysOpen(Promise.race(steps), `first steps of ${count - 1} agents`);
        const last = await stage.agentsAlone(1, world);
        const all = [...agents, ...last.agents];
        await stage.drive(all, () => all.every(({ states }) => states.length > 0));
      },
    },
  }),
  ...checksOf(29, 'reference.md, "LeaveWorldRequest/Response"', {
    "leave-not-joined": {
      title: "A leave while not joined is a no-op.",
      async run(stage) {
        const connection = await stage.connect();
        await connection.leave();
        await connection.leave();
      },
    },
    rejoin: {
      title: "An agent that has left can join again and starts with a first step.",
      async run(stage) {
        const world = await stage.world();
        const agent = await stage.agent(world);
        await agent.step();
        await agent.leave();
        await agent.join(world, stage.config.join ?? {});
        const { state } = await agent.step();
        expectThat(state === "RUNNING", "RUNNING on the first step", state);
      },
    },
    "others-when-one-leaves": {
      title:
        "When an agent leaves, the others continue, wait or are INTERRUPTED, depending on the world.",
      notFor: needsAll(needsSeveral(2), ({ onLeave }) =>
        onLeave === undefined ? 'the config has no "onLeave"' : undefined,
      ),
      async run(stage) {
        const { world, agents } = await stage.running(2);
        const [stays, leaves] = agents;
        if (stays === undefined || leaves === undefined) {
          return;
        }
        if (leaves.outstanding) {
          await stage.drive(agents, () => !leaves.outstanding);
        }
        await leaves.leave();
        const before = stays.states.length;
        const { onLeave } = stage.config;
        if (onLeave === "block") {
          await stage.staysOpen(stays.keepStepping(), "a step in a blocked world");
          const joins = await stage.agent(world);
          await stage.drive([stays, joins], () => stays.states.length > before);
          return;
        }
        await stage.drive([stays], () => stays.states.length >= before + 2);
        const next = stays.states[before];
        const expected = onLeave === "terminate" ? "INTERRUPTED" : "RUNNING";
        expectThat(next === expected, `${expected} for the agent that stays`, `${next}`);
      },
    },
  }),
  ...checksOf(30, 'reference.md, "DestroyWorldRequest/Response"', {
    "unknown-world": {
      title: "A destroy of an unknown world is an error.",
      async run(stage) {
        const connection = await stage.connect();
        await connection.refused(requests.destroyWorld(nowhere), "a destroy of an unknown world");
      },
    },
    "by-a-joined-agent": {
      title: "A destroy by an agent of the world is an error, and changes nothing.",
      notFor: needsCreate,
      async run(stage) {
        const { world, agents } = await stage.running(1);
        const [agent] = agents;
        await agent?.refused(requests.destroyWorld(world), "a destroy of one's own world");
        const step = await agent?.step();
        expectThat(step?.state === "RUNNING", "RUNNING as before", `${step?.state}`);
      },
    },
    "from-elsewhere": {
      title: "Any connection can destroy a world, which can then no longer be joined.",
      notFor: needsCreate,
      async run(stage) {
        const { create = {}, join = {} } = stage.config;
        const world = await (await stage.connect()).createWorld(create);
        const other = await stage.connect();
        await other.destroyWorld(world);
        await other.refused(requests.join(world, join), "a join of a destroyed world");
        await other.refused(requests.destroyWorld(world), "a second destroy");
      },
    },
    "while-joined": {
      title:
        "A destroy while agents are joined is refused, waits or is forced, depending on the world.",
      notFor: needsAll(needsCreate, ({ onDestroy }) =>
        onDestroy === undefined ? 'the config has no "onDestroy"' : undefined,
      ),
      async run(stage) {
        const { world, agents } = await stage.running(1);
        const [agent] = agents;
        const other = await stage.connect();
        const destroy = requests.destroyWorld(world);
        if (stage.config.onDestroy === "refuse") {
          await other.refused(destroy, "a destroy while an agent is joined");
          await agent?.step();
        } else if (stage.config.onDestroy === "force") {
          await other.accepted<"destroyWorld">(destroy);
          await agent?.refused(requests.step([], []), "a step in a destroyed world");
        } else {
          const answer = other.accepted<"destroyWorld">(destroy);
          await stage.staysOpen(answer, "the destroy");
          await stage.dismiss(world);
          await agent?.leave();
          await answer;
        }
      },
    },
  }),
];
