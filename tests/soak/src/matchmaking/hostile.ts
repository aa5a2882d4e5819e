// SPDX-License-Identifier: Apache-2.0
// A caller with the token of an agent and that of a party that runs servers. It floods matchmakers with tickets, watches,
// registrations, reports and connections from an address of its own, until its standard input receives a line or closes:
// node hostile.js --agent-token TOKEN --server-token TOKEN --matchmaker ADDRESS... --server ADDRESS...
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { setTimeout } from "node:timers/promises";
import { parseArgs } from "node:util";
import { Code, ConnectError, createClient, type Interceptor } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { FrontendService, RegistryService } from "@dm-env-rpc/protocol/matchmaker";
import type { Flood } from "./events.ts";

const localAddress = "127.0.0.66";
/** Calls of each kind in flight at each matchmaker. */
const inFlight = 64;
const connections = 300;
/** Pause between successive calls of one loop. */
const paceMs = 20;

const { values } = parseArgs({
  options: {
    "agent-token": { type: "string", default: "" },
    "server-token": { type: "string", default: "" },
    matchmaker: { type: "string", multiple: true, default: [] },
    // Servers of another party.
    server: { type: "string", multiple: true, default: [] },
  },
});
const counts = { calls: 0, created: 0, refused: 0, failed: 0 };
const ending = new AbortController();
const { signal } = ending;

/** Codes with which the matchmakers refuse a call. */
const refusals: ReadonlySet<Code> = new Set([
  Code.ResourceExhausted,
  Code.PermissionDenied,
  Code.Unauthenticated,
  Code.AlreadyExists,
  Code.FailedPrecondition,
  Code.NotFound,
  Code.Aborted,
]);

function bearer(token: string): Interceptor {
  return (next) => (request) => {
    request.header.set("authorization", `Bearer ${token}`);
    return next(request);
  };
}

async function again(call: () => Promise<unknown>): Promise<void> {
  while (!signal.aborted) {
    counts.calls += 1;
    try {
      await call();
    } catch (error) {
      counts[refusals.has(ConnectError.from(error).code) ? "refused" : "failed"] += 1;
    }
    await setTimeout(paceMs);
  }
}

/** Opens connections that do nothing, of HTTP/2 and of HTTP/1.1, and opens them again when they end. */
async function hold(url: URL): Promise<void> {
  const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
  const partial = "POST /matchmaker.v1.RegistryService/RegisterServer HTTP/1.1\r\n";
  const open = async (first: string): Promise<void> => {
    while (!signal.aborted) {
      const socket: Socket = connect({ host: url.hostname, port: Number(url.port), localAddress });
      socket.on("error", () => {}).resume();
      socket.write(first);
      await Promise.race([once(socket, "close").catch(() => {}), once(signal, "abort")]);
      socket.destroy();
      await setTimeout(paceMs);
    }
  };
  await Promise.all(
    Array.from({ length: connections }, (_, i) => open(i % 2 === 0 ? preface : partial)),
  );
}

const floods = values.matchmaker.flatMap((matchmaker) => {
  const baseUrl = new URL(matchmaker);
  const transportAs = (...interceptors: Interceptor[]) =>
    createGrpcTransport({
      baseUrl: matchmaker,
      interceptors,
      nodeOptions: {
        createConnection: () =>
          connect({ host: baseUrl.hostname, port: Number(baseUrl.port), localAddress }),
      },
    });
  const asAgent = transportAs(bearer(values["agent-token"]));
  const frontend = createClient(FrontendService, asAgent);
  const registryAsAgent = createClient(RegistryService, asAgent);
  const registry = createClient(RegistryService, transportAs(bearer(values["server-token"])));
  const frontendAsNobody = createClient(FrontendService, transportAs());
  const filler = { strings: { filler: "x".repeat(12_000) }, doubles: {}, tags: [] };
  const known: string[] = [];
  const create = async (): Promise<void> => {
    const ticketId = randomUUID();
    // No pool of the soak accepts these tickets.
    const search = { ...filler, tags: ["hostile"] };
    await frontend.createTicket({ ticketId, searchFields: search, profile: "nobody" }, { signal });
    known.push(ticketId);
    counts.created += 1;
  };
  const watch = async (): Promise<void> => {
    const ticketId = known[counts.calls % Math.max(1, known.length)] ?? randomUUID();
    for await (const _ of frontend.watchTicket({ ticketId }, { signal })) {
      // Watches stay open.
    }
  };
  const offer = (address: string) => ({
    serverId: randomUUID(),
    address,
    capacity: { maxWorlds: 1_000, maxAgents: 1_000 },
    worldTypes: ["counted"],
    joinTokens: true,
  });
  const nowhere = (): string => `${localAddress}:${1 + (counts.calls % 60_000)}`;
  const taken = (): string => values.server[counts.calls % values.server.length] ?? nowhere();
  const calls = [
    create,
    watch,
    () => frontendAsNobody.createTicket({ ticketId: randomUUID() }, { signal }),
    () => registryAsAgent.registerServer(offer(nowhere()), { signal }),
    () => registry.registerServer(offer(nowhere()), { signal }),
    () => registry.registerServer(offer(taken()), { signal }),
    () => registry.renewServer({ serverId: randomUUID(), epoch: 1n }, { signal }),
  ];
  const lines = calls.flatMap((call) => Array.from({ length: inFlight }, () => again(call)));
  return [...lines, hold(baseUrl)];
});
await Promise.race([once(process.stdin, "data"), once(process.stdin, "end")]);
ending.abort();
await Promise.all(floods);
const flood: Flood = counts;
process.stdout.write(`${JSON.stringify(flood)}\n`);
process.exit();
