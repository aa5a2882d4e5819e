// SPDX-License-Identifier: Apache-2.0
// Agents that play one sequence of each match, until their standard input receives a line or closes:
// node agents.js --matchmaker ADDRESS... --agents N --name NAME --token TOKEN
import { once } from "node:events";
import { setTimeout } from "node:timers/promises";
import { parseArgs } from "node:util";
import type { Environment } from "@dm-env-rpc/client";
import { joinMatch, matchmakerClient, type TicketAssignment } from "@dm-env-rpc/matchmaker/client";
import type { AgentEvent } from "./events.ts";

/** Time for the other agents of a match to join: longer than seats are reserved. */
const patienceMs = 7_000;
/** Time between two steps. */
const stepMs = 25;

const { values } = parseArgs({
  options: {
    matchmaker: { type: "string", multiple: true, default: [] },
    agents: { type: "string", default: "1" },
    name: { type: "string", default: "typescript" },
    token: { type: "string", default: "" },
    // Accepted because all agents get the same arguments; this client has its own descriptors.
    descriptors: { type: "string" },
  },
});
const matchmaker = matchmakerClient(values.matchmaker, { token: values.token });
const ending = new AbortController();

/** The other agents of a match did not join. */
class Alone extends Error {}

async function live(agent: string): Promise<void> {
  for (let turn = 1; !ending.signal.aborted; turn++) {
    const tell = (is: AgentEvent["is"], more: Pick<AgentEvent, "address" | "why"> = {}): void => {
      const event: AgentEvent = { at: Date.now(), agent, turn, is, ...more };
      process.stdout.write(`${JSON.stringify(event)}\n`);
    };
    tell("asked");
    await takeTurn(tell);
  }
}

type Tell = (is: AgentEvent["is"], more?: Pick<AgentEvent, "address" | "why">) => void;

async function takeTurn(tell: Tell): Promise<void> {
  const over = new AbortController();
  const signal = AbortSignal.any([over.signal, ending.signal]);
  let playing: Promise<void> | undefined;
  let mine: TicketAssignment | undefined;
  let isPlaying = false;
  try {
    for await (const { ticketId, state, assignment, error } of matchmaker.find({}, { signal })) {
      if (playing === undefined && assignment !== undefined) {
        mine = assignment;
        tell("assigned", { address: assignment.address });
        isPlaying = true;
        playing = play(ticketId, assignment, tell).finally(() => {
          isPlaying = false;
          over.abort();
        });
      } else if (isPlaying && hasMoved(state, assignment, mine)) {
        tell("moved", { address: mine?.address, why: state });
      } else if (state === "failed" && playing === undefined) {
        tell("failed", { why: String(error) });
        return;
      }
    }
    if (playing === undefined) {
      tell("failed", { why: "the updates of the ticket ended" });
    }
  } catch (error) {
    if (playing === undefined) {
      tell(ending.signal.aborted ? "given-up" : "failed", { why: String(error) });
    }
  }
  await playing;
}

/** Returns true if an update takes away the seat of an agent that plays. */
function hasMoved(
  state: string,
  assignment: TicketAssignment | undefined,
  mine: TicketAssignment | undefined,
): boolean {
  if (assignment !== undefined) {
    return assignment.joinToken !== mine?.joinToken;
  }
  return state === "waiting" || state === "matched";
}

/** Plays a sequence, and reports its fate. Never rejects. */
async function play(ticket: string, assignment: TicketAssignment, tell: Tell): Promise<void> {
  const { address } = assignment;
  try {
    await using environment = await joinMatch(assignment, { settings: { ticket } });
    let step = await begin(environment);
    tell("began", { address });
    while (!step.last()) {
      await setTimeout(stepMs);
      step = await environment.step({ move: 1 });
    }
    tell("finished", { address });
  } catch (error) {
    const isAlone = error instanceof Alone;
    const fate = isAlone && ending.signal.aborted ? "given-up" : isAlone ? "alone" : "lost";
    tell(fate, { address, why: String(error) });
    await matchmaker.cancel(ticket).catch(() => {});
  }
}

/** Makes the first step, which waits for the other agents. */
async function begin(environment: Environment): ReturnType<Environment["reset"]> {
  const late = new AbortController();
  const first = environment.reset();
  const outcome = await Promise.race([
    first,
    setTimeout(patienceMs, late, { signal: late.signal }),
  ]);
  if (outcome === late) {
    first.catch(() => {});
    throw new Alone(`the others did not join within ${patienceMs} ms`);
  }
  late.abort();
  return await first;
}

const lives = Array.from({ length: Number(values.agents) }, (_, i) => live(`${values.name}-${i}`));
await Promise.race([once(process.stdin, "data"), once(process.stdin, "end")]);
ending.abort();
await Promise.all(lives);
process.exit();
