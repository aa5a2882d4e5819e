// SPDX-License-Identifier: Apache-2.0
import { TicketState } from "@dm-env-rpc/protocol/matchmaker";
import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Fact } from "../fact.tsx";
import { formatNumber } from "../format.ts";
import { Status } from "../status.tsx";
import { useStream } from "../use-stream.ts";
import { Changes } from "./changes.tsx";
import { agentsOf, Fleet } from "./fleet.ts";
import { createOperator, type Operator } from "./operator.ts";
import { Profiles } from "./profiles.tsx";
import { Servers } from "./servers.tsx";
import { SignIn } from "./sign-in.tsx";
import { Tickets } from "./tickets.tsx";
import { Worlds } from "./worlds.tsx";

const sections = [
  { name: "servers", title: "Servers" },
  { name: "worlds", title: "Worlds" },
  { name: "tickets", title: "Tickets" },
  { name: "profiles", title: "Profiles" },
  { name: "changes", title: "Changes" },
] as const;

type Section = (typeof sections)[number];

/** Minimum time between two renders, so that a busy matchmaker does not keep the page busy. */
const renderMs = 250;

/** The page of a matchmaker. */
export function App() {
  const [token, setToken] = useState<string>();
  const [signIns, setSignIns] = useState(0);
  const [isAdmitted, setAdmitted] = useState(false);
  const operator = useMemo(() => createOperator(location.origin, token), [token]);
  const fleet = useRef(new Fleet());
  const rerender = useRenderSoon();
  const section = useSection();
  const status = useStream(
    String(signIns),
    (signal) => {
      fleet.current = new Fleet();
      rerender();
      return operator.watch(signal);
    },
    (change) => {
      if (change === undefined) {
        setAdmitted(true);
      } else {
        fleet.current.apply(change, Date.now());
        rerender();
      }
    },
  );
  const signIn = (given: string | undefined): void => {
    setToken(given);
    setAdmitted(false);
    setSignIns((count) => count + 1);
  };
  useEffect(() => {
    document.title = `${section.title} · Matchmaker`;
  }, [section]);
  const isRefused = status.kind === "failed" && status.isFinal;
  return (
    <>
      <header>
        <h1>Matchmaker</h1>
        <Status
          status={status}
          ended="The matchmaker was closed. Reload the page when it runs again."
        />
        {token !== undefined && (
          <button type="button" onClick={() => signIn(undefined)}>
            Sign out
          </button>
        )}
      </header>
      {isRefused && (
        <main>
          <SignIn onToken={signIn} />
        </main>
      )}
      {isAdmitted && !isRefused && (
        <>
          <Sections current={section} />
          <main>
            <h2>{section.title}</h2>
            <Totals fleet={fleet.current} />
            {viewOf(section, fleet.current, operator)}
          </main>
        </>
      )}
    </>
  );
}

function viewOf(section: Section, fleet: Fleet, operator: Operator): ComponentChildren {
  switch (section.name) {
    case "servers":
      return <Servers servers={fleet.servers} operator={operator} />;
    case "worlds":
      return <Worlds servers={fleet.servers} />;
    case "tickets":
      return <Tickets fleet={fleet} />;
    case "profiles":
      return <Profiles profiles={fleet.profiles} />;
    case "changes":
      return <Changes changes={fleet.changes} />;
  }
}

function Sections({ current }: { readonly current: Section }) {
  return (
    <nav aria-label="Sections">
      {sections.map((section) => (
        <a
          key={section.name}
          href={addressOf(section)}
          aria-current={section === current ? "page" : undefined}
        >
          {section.title}
        </a>
      ))}
    </nav>
  );
}

function Totals({ fleet }: { readonly fleet: Fleet }) {
  const { servers } = fleet;
  const worlds = servers.reduce((sum, server) => sum + server.worlds.length, 0);
  return (
    <dl class="facts">
      <Fact name="Tickets waiting" value={formatNumber(fleet.count(TicketState.WAITING))} />
      <Fact name="Tickets joined" value={formatNumber(fleet.count(TicketState.JOINED))} />
      <Fact name="Servers" value={formatNumber(servers.length)} />
      <Fact name="Worlds" value={formatNumber(worlds)} />
      <Fact name="Agents" value={formatNumber(agentsOf(servers))} />
    </dl>
  );
}

/** Returns the section that the address selects. */
function useSection(): Section {
  const [section, setSection] = useState(() => sectionOf(location.hash));
  useEffect(() => {
    const change = (): void => setSection(sectionOf(location.hash));
    addEventListener("hashchange", change);
    return () => removeEventListener("hashchange", change);
  }, []);
  return section;
}

function sectionOf(hash: string): Section {
  return sections.find((section) => addressOf(section) === hash) ?? sections[0];
}

function addressOf({ name }: Section): string {
  return `#/${name}`;
}

/** Returns a function that renders the component again soon. Calling it several times causes only one render. */
function useRenderSoon(): () => void {
  const [, setCount] = useState(0);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);
  return () => {
    timer.current ??= setTimeout(() => {
      timer.current = undefined;
      setCount((count) => count + 1);
    }, renderMs);
  };
}
