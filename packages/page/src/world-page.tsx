// SPDX-License-Identifier: Apache-2.0
import {
  AgentState,
  type AgentView,
  type WatchWorldResponse,
  type WorldInfo,
} from "@dm-env-rpc/protocol/spectator";
import { useEffect, useRef, useState } from "preact/hooks";
import { Fact } from "./fact.tsx";
import { formatNumber, nameOf } from "./format.ts";
import { History } from "./history.ts";
import { PlayPanel } from "./play/play-panel.tsx";
import { useSeat } from "./play/use-seat.ts";
import { Plot } from "./plot.tsx";
import type { Spectator } from "./spectator.ts";
import { Status } from "./status.tsx";
import { useSeries } from "./use-series.ts";
import { useStream } from "./use-stream.ts";
import { OwnObservations, View } from "./view.tsx";
import { totalsOf } from "./worlds-page.tsx";

const sampleMs = 500;

interface WorldPageProps {
  readonly spectator: Spectator;
  readonly name: string;
  readonly joinToken: string | undefined;
}

/** The live page of one world. */
export function WorldPage({ spectator, name, joinToken }: WorldPageProps) {
  const [frame, setFrame] = useState<WatchWorldResponse>();
  const [info, setInfo] = useState<WorldInfo>();
  const [isPaused, setPaused] = useState(false);
  const [agent, setAgent] = useState(0);
  const history = useRef(new History());
  const { seat, state, take, close } = useSeat({
    spectator,
    world: name,
    joinToken,
    info,
    frame,
    showAgent: setAgent,
  });
  const status = useStream(
    JSON.stringify([name, agent]),
    (signal) => spectator.service.watchWorld({ world: name, agent }, { signal }),
    (response) => {
      const { timeMs, world } = response;
      if (world !== undefined && timeMs - (history.current.latest?.timeMs ?? 0) >= sampleMs) {
        history.current.add(timeMs, totalsOf(world));
      }
      setInfo((known) => response.info ?? known);
      setFrame(response);
    },
    isPaused,
  );
  useEffect(() => {
    document.title = nameOf(name);
  }, [name]);
  const { times, steps, returns } = useSeries(history.current);
  return (
    <>
      <header>
        <a href="#/">All worlds</a>
        <h1>{nameOf(name)}</h1>
        <Status
          status={status}
          ended="This world no longer exists, or its server was closed. Choose another in “All worlds”."
        />
        {info !== undefined && (info.canJoin || joinToken !== undefined) && seat === undefined && (
          <button type="button" class="main" onClick={take}>
            Take a seat
          </button>
        )}
        <button type="button" aria-pressed={isPaused} onClick={() => setPaused(!isPaused)}>
          {isPaused ? "Resume" : "Pause"}
        </button>
      </header>
      <main class="world">
        {frame?.world !== undefined && info !== undefined && (
          <>
            <section class="view" aria-label="View of the world">
              {state?.step !== undefined && frame.view.case !== "picture" ? (
                <OwnObservations observation={state.step.observation} />
              ) : (
                <View view={frame.view} world={nameOf(name)} />
              )}
              {seat !== undefined && state !== undefined && (
                <PlayPanel seat={seat} state={state} info={info} frame={frame} onClose={close} />
              )}
            </section>
            <section class="side" aria-label="Progress of the world">
              {info.description !== "" && <p>{info.description}</p>}
              <dl class="facts">
                <Fact name="Sequence" value={formatNumber(Number(frame.world.sequences))} />
                <Fact name="Tick" value={formatNumber(Number(frame.world.ticks))} />
                <Fact name="Clock" value={clockOf(info)} />
                {frame.missedDeadlines > 0n && (
                  <Fact
                    name="Missed deadlines"
                    value={formatNumber(Number(frame.missedDeadlines))}
                  />
                )}
                {frame.missedTicks > 0n && (
                  <Fact name="Missed ticks" value={formatNumber(Number(frame.missedTicks))} />
                )}
              </dl>
              <Agents
                agents={frame.agents}
                count={frame.world.agents}
                shown={shownAgent(frame, info, agent)}
                onShow={setAgent}
              />
              <Plot title="Steps a second" times={times} values={steps} />
              <Plot title="Mean return" times={times} values={returns} />
            </section>
          </>
        )}
      </main>
    </>
  );
}

function clockOf({ clock }: WorldInfo): string {
  if (clock === undefined) {
    return "–";
  }
  const { name, deadlineMs } = clock;
  return deadlineMs > 0 ? `${name}, ${formatNumber(deadlineMs / 1_000)} s` : name;
}

/** The agent that the view shows; undefined if it shows the whole world. */
function shownAgent(
  { view, agents }: WatchWorldResponse,
  { perAgent }: WorldInfo,
  chosen: number,
): number | undefined {
  if (view.case === "observations") {
    return view.value.agent;
  }
  return perAgent ? chosen || agents[0]?.agent : undefined;
}

interface AgentsProps {
  readonly agents: readonly AgentView[];
  readonly count: number;
  readonly shown: number | undefined;
  readonly onShow: (agent: number) => void;
}

function Agents({ agents, count, shown, onShow }: AgentsProps) {
  return (
    <div class="scrolls">
      <table>
        <caption>{count === 1 ? "1 agent" : `${formatNumber(count)} agents`}</caption>
        <thead>
          <tr>
            <th scope="col">Agent</th>
            <th scope="col">State</th>
            <th scope="col">Reward</th>
            <th scope="col">Return</th>
          </tr>
        </thead>
        <tbody>
          {agents.map(({ agent, state, isWaiting, reward, return: total }) => (
            <tr key={agent}>
              <th scope="row">
                {shown === undefined ? (
                  agent
                ) : (
                  <button
                    type="button"
                    aria-pressed={shown === agent}
                    onClick={() => onShow(agent)}
                  >
                    {agent}
                  </button>
                )}
              </th>
              <td>
                {stateNames[state]}
                {isWaiting && ", waits"}
              </td>
              <td>{formatNumber(reward)}</td>
              <td>{formatNumber(total)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

const stateNames: Readonly<Record<AgentState, string>> = {
  [AgentState.UNSPECIFIED]: "–",
  [AgentState.IDLE]: "idle",
  [AgentState.RUNNING]: "running",
  [AgentState.ENDED]: "ended",
};
