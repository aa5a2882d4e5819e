// SPDX-License-Identifier: Apache-2.0
import type { WatchWorldsResponse, WorldSummary } from "@dm-env-rpc/protocol/spectator";
import { useEffect, useRef, useState } from "preact/hooks";
import { addressOf, replayAddress } from "./app.tsx";
import { Fact } from "./fact.tsx";
import { formatNumber, nameOf } from "./format.ts";
import { History, SharedTotals, type Totals } from "./history.ts";
import { Plot } from "./plot.tsx";
import type { Spectator } from "./spectator.ts";
import { Status } from "./status.tsx";
import { useSeries } from "./use-series.ts";
import { useStream } from "./use-stream.ts";

/** All worlds of a server. */
export function WorldsPage({ spectator }: { readonly spectator: Spectator }) {
  const [latest, setLatest] = useState<WatchWorldsResponse>();
  const histories = useRef(new Map<string, History>());
  const all = useRef(new History());
  const shared = useRef(new SharedTotals());
  const status = useStream(
    "worlds",
    (signal) => spectator.service.watchWorlds({ maxRate: 2 }, { signal }),
    (response) => {
      const { timeMs, worlds } = response;
      histories.current = new Map(
        worlds.map((world) => {
          const history = histories.current.get(world.name) ?? new History();
          history.add(timeMs, totalsOf(world));
          return [world.name, history];
        }),
      );
      const totals = new Map(worlds.map((world) => [world.name, totalsOf(world)]));
      all.current.add(timeMs, shared.current.add(totals));
      setLatest(response);
    },
  );
  useEffect(() => {
    document.title = "Worlds";
  }, []);
  const worlds = latest?.worlds ?? [];
  const agents = worlds.reduce((sum, world) => sum + world.agents, 0);
  const { times, steps, returns } = useSeries(all.current);
  return (
    <>
      <header>
        <h1>Worlds</h1>
        <Status
          status={status}
          ended="The server was closed. Reload the page when it runs again."
        />
      </header>
      <main>
        <dl class="facts">
          <Fact name="Worlds" value={formatNumber(latest?.worldCount ?? 0)} />
          <Fact name="Agents" value={formatNumber(agents)} />
        </dl>
        <section class="plots" aria-label="All worlds over time">
          <Plot title="Steps a second" times={times} values={steps} />
          <Plot title="Mean return" times={times} values={returns} />
        </section>
        {latest !== undefined && worlds.length === 0 ? (
          <p>No worlds yet. Each world appears here when a client creates it.</p>
        ) : (
          <WorldsTable worlds={worlds} histories={histories.current} />
        )}
        <p>
          <a href={replayAddress}>Replay a recording</a>
        </p>
        {latest !== undefined && latest.worldCount > worlds.length && (
          <p>{formatNumber(latest.worldCount - worlds.length)} more are not listed.</p>
        )}
      </main>
    </>
  );
}

interface WorldsTableProps {
  readonly worlds: readonly WorldSummary[];
  readonly histories: ReadonlyMap<string, History>;
}

function WorldsTable({ worlds, histories }: WorldsTableProps) {
  return (
    <div class="scrolls">
      <table>
        <caption class="hidden">The worlds of this server</caption>
        <thead>
          <tr>
            <th scope="col">World</th>
            <th scope="col">Kind</th>
            <th scope="col">Agents</th>
            <th scope="col">Sequences</th>
            <th scope="col">Steps/s</th>
            <th scope="col">Return</th>
          </tr>
        </thead>
        <tbody>
          {worlds.map((world) => (
            <tr key={world.name}>
              <th scope="row">
                <a href={addressOf(world.name)}>{nameOf(world.name)}</a>
              </th>
              <td>{world.type}</td>
              <td>{formatNumber(world.agents)}</td>
              <td>{formatNumber(Number(world.sequences))}</td>
              <td>{textOf(histories.get(world.name)?.latest?.stepsPerSecond)}</td>
              <td>{textOf(histories.get(world.name)?.latestReturn)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function textOf(value: number | undefined): string {
  return value === undefined ? "–" : formatNumber(value);
}

/** Returns the totals of a world for its history. */
export function totalsOf({ steps, returns, returnSum }: WorldSummary): Totals {
  return { steps: Number(steps), returns: Number(returns), returnSum };
}
