// SPDX-License-Identifier: Apache-2.0
// The process of the well-behaved agents: one on the attacked server, one on a server that is not attacked, and visitors.
import { setTimeout as sleep } from "node:timers/promises";
import { type Connection, connect } from "@dm-env-rpc/client";
import { clockMs } from "./clock.ts";

/** A step: when it began, and how long it took, in milliseconds. */
export type Step = readonly [at: number, ms: number];

/** Steps of an agent since the last time that they were asked for. */
export interface Played {
  readonly steps: readonly Step[];
  /** The step that has no response yet. */
  readonly pending?: Step;
  /** The error that ended the agent. */
  readonly failure?: string;
}

/** The result of a visit: an agent connects, joins, steps and leaves. */
export interface Visit {
  readonly endedAt: number;
  readonly failure?: string;
}

/** Commands with their parameters and answers. */
export interface Commands {
  /** Creates a world and starts to play in it. */
  join: { readonly ask: { readonly name: string; readonly url: string }; readonly answer: object };
  steps: { readonly ask: { readonly name: string }; readonly answer: Played };
  leave: { readonly ask: { readonly name: string }; readonly answer: object };
  /** Visits the second world that the named agent has created. */
  visit: { readonly ask: { readonly name: string }; readonly answer: Visit };
}

/** Milliseconds from the start of a step to the start of the next one. */
const paceMs = 5;

interface Agent {
  readonly url: string;
  readonly connection: Connection;
  readonly lobby: string;
  readonly steps: Step[];
  pendingAt: number | undefined;
  failure: string | undefined;
}

const agents = new Map<string, Agent>();

async function join({ name, url }: Commands["join"]["ask"]): Promise<object> {
  const connection = await connect(url);
  const settings = { max_steps: 2 ** 30 };
  const environment = await connection.join(await connection.createWorld({ settings }));
  const lobby = await connection.createWorld({ settings });
  const agent: Agent = {
    url,
    connection,
    lobby,
    steps: [],
    pendingAt: undefined,
    failure: undefined,
  };
  agents.set(name, agent);
  const play = async (): Promise<void> => {
    for (let move = 0; agents.get(name) === agent; move = (move + 1) % 5) {
      const at = clockMs();
      agent.pendingAt = at;
      await environment.step({ move });
      agent.pendingAt = undefined;
      const ms = clockMs() - at;
      agent.steps.push([at, ms]);
      await sleep(Math.max(0, paceMs - ms));
    }
  };
  play().catch((error: unknown) => {
    agent.failure = String(error);
    agent.pendingAt = undefined;
  });
  return {};
}

function played({ name }: Commands["steps"]["ask"]): Played {
  const agent = agentOf(name);
  const { pendingAt, failure } = agent;
  return {
    steps: agent.steps.splice(0),
    ...(pendingAt === undefined ? {} : { pending: [pendingAt, clockMs() - pendingAt] }),
    ...(failure === undefined ? {} : { failure }),
  };
}

async function leave({ name }: Commands["leave"]["ask"]): Promise<object> {
  const agent = agentOf(name);
  agents.delete(name);
  await agent.connection.close();
  return {};
}

async function visit({ name }: Commands["visit"]["ask"]): Promise<Visit> {
  const { url, lobby } = agentOf(name);
  try {
    await using connection = await connect(url);
    await using environment = await connection.join(lobby);
    for (let move = 0; move < 5; move++) {
      await environment.step({ move });
    }
    return { endedAt: clockMs() };
  } catch (error) {
    return { endedAt: clockMs(), failure: String(error) };
  }
}

function agentOf(name: string): Agent {
  const agent = agents.get(name);
  if (agent === undefined) {
    throw new Error(`unknown agent: ${name}`);
  }
  return agent;
}

const commands: {
  readonly [K in keyof Commands]: (
    ask: Commands[K]["ask"],
  ) => Commands[K]["answer"] | Promise<Commands[K]["answer"]>;
} = { join, steps: played, leave, visit };

/** A command on its way to the process of the agents. */
export interface Question<K extends keyof Commands = keyof Commands> {
  readonly id: number;
  readonly command: K;
  readonly ask: Commands[K]["ask"];
}

/** The answer to the question with the same `id`. */
export interface Answer {
  readonly id: number;
  readonly answer?: object;
  readonly error?: string;
}

async function handle<K extends keyof Commands>({ id, command, ask }: Question<K>): Promise<void> {
  let answer: Answer;
  try {
    answer = { id, answer: await commands[command](ask) };
  } catch (error) {
    answer = { id, error: String(error) };
  }
  process.send?.(answer);
}

process.on("message", (question: Question) => {
  void handle(question);
});
