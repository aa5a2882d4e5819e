// SPDX-License-Identifier: Apache-2.0

import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { connect } from "@dm-env-rpc/client";
import { AdminService, ServerState } from "@dm-env-rpc/protocol/matchmaker";
import { serve } from "@dm-env-rpc/server";
import { manualTime, systemTime, type TimeSource } from "@dm-env-rpc/transport/internal";
import { describe, expect, it } from "vitest";
import { pairs } from "../../testing/pairs.ts";
import { startMs } from "../../testing/start-ms.ts";
import { counting, serveCounting } from "../../testing/world-server.ts";
import { joinMatch, matchmakerClient, type TicketUpdate } from "../client/index.ts";
import { serveMatchmaker } from "../serve-matchmaker.ts";
import { type Registration, type RegistrationEvent, register } from "./register.ts";
import type { ServeHooks } from "./serve-registered.ts";

/** So long that a call is answered in time even if the machine stalls. */
const patient = { timeoutMs: 60_000 };

describe("a registered server", () => {
  it("admits only assigned agents, each once and into its own world", async () => {
    await using served = await serveMatchmaker({ profiles: [pairs] });
    await using registered = await serveCounting(served.url);
    await registered.registration.registered;
    const matchmaker = matchmakerClient(served.url, patient);
    const tickets = await Promise.all(Array.from({ length: 4 }, () => matchmaker.findMatch()));
    const [one] = tickets;
    const sameWorld = tickets.filter(({ worldName }) => worldName === one?.worldName);
    const [other] = tickets.filter(({ worldName }) => worldName !== one?.worldName);
    const [mine, partner] = sameWorld;
    if (mine === undefined || partner === undefined || other === undefined) {
      throw new Error("two matches of two were expected");
    }
    const { url } = registered.server;
    const { worldName } = mine;
    await using stranger = await connect(url);
    await expect(stranger.join(worldName, { as: counting })).rejects.toMatchObject({
      code: "UNAUTHENTICATED",
      message: expect.stringMatching(/expected a join token, received none/),
    });
    await expect(joinMatch({ ...other, worldName }, { as: counting })).rejects.toMatchObject({
      code: "PERMISSION_DENIED",
      message: expect.stringMatching(/received a token for "counting-\d"/),
    });
    await expect(
      joinMatch({ ...mine, joinToken: `${mine.joinToken}x` }, { as: counting }),
    ).rejects.toMatchObject({ code: "UNAUTHENTICATED" });
    await using first = await joinMatch(mine, { as: counting });
    await expect(joinMatch(mine, { as: counting })).rejects.toMatchObject({
      code: "PERMISSION_DENIED",
      message: expect.stringMatching(/has been taken/),
    });
    // The token as a join setting, for clients that cannot send metadata.
    const settings = { join_token: partner.joinToken };
    await using second = await stranger.join(worldName, { as: counting, settings });
    const [began] = await Promise.all([first.reset(), second.reset()]);
    expect(began.observation.total).toBe(100);
  });

  it("presents its token to a matchmaker that authorizes calls, and reports why another token is refused", async () => {
    await using served = await serveMatchmaker({
      authorize: ({ metadata }) =>
        metadata.get("authorization") === "Bearer open-sesame" ? ["operator"] : undefined,
    });
    let refuse = (_event: RegistrationEvent): void => {};
    const refused = new Promise<RegistrationEvent>((resolve) => {
      refuse = resolve;
    });
    await using _stranger = await serveCounting(served.url, { onEvent: refuse });
    expect(await refused).toMatchObject({
      kind: "failed",
      error: {
        code: "UNAUTHENTICATED",
        origin: "server",
        message: expect.stringMatching(
          /^RegistryService: expected a caller with the role "server" or "operator", received one that is not authenticated/,
        ),
      },
    });
    await using registered = await serveCounting(served.url, { token: "open-sesame" });
    await registered.registration.registered;
  });

  it("that closes receives no more agents, and each ticket ends when its agent leaves", async () => {
    await using served = await serveMatchmaker({ profiles: [pairs] });
    await using registered = await serveCounting(served.url);
    const agents = await playing(served.url);
    const closed = registered.close({ graceMs: 60_000 });
    await expect.poll(() => serverStates(served.url)).toEqual([ServerState.DRAINING]);
    await using other = await serveCounting(served.url);
    const matchmaker = matchmakerClient(served.url, patient);
    const [next] = await Promise.all([matchmaker.findMatch(), matchmaker.findMatch()]);
    expect(next.address).toBe(other.server.url);
    for (const { environment } of agents) {
      const step = await environment.step({ add: 1 });
      expect(step.state).toBe("interrupted");
      await environment.close();
    }
    await closed;
    expect(await Promise.all(agents.map(({ next }) => next))).toEqual(["completed", "completed"]);
  });

  it("reports the agents that joined and left since the last report when it closes", async () => {
    await using served = await serveMatchmaker({ profiles: [pairs] });
    // Its clock stands still, so that there is no report between the first and the last.
    const time = manualTime(startMs);
    await using registered = await serveCounting(served.url, { time });
    const matchmaker = matchmakerClient(served.url, patient);
    const play = async () => {
      const assignment = await matchmaker.findMatch();
      return { assignment, environment: await joinMatch(assignment, { as: counting }) };
    };
    const agents = await Promise.all([play(), play()]);
    const closed = registered.close({ graceMs: 60_000 });
    await Promise.all(agents.map(({ environment }) => environment.close()));
    await closed;
    const states = async () =>
      await Promise.all(
        agents.map(async ({ assignment }) => (await matchmaker.get(assignment.ticketId)).state),
      );
    await expect.poll(states).not.toContain("assigned");
    expect(await states()).toEqual(["completed", "completed"]);
  });

  it("cuts off its remaining agents at the end of its grace period, and their tickets wait again", async () => {
    await using served = await serveMatchmaker({ profiles: [pairs] });
    await using registered = await serveCounting(served.url);
    const agents = await playing(served.url);
    const closed = registered.close({ graceMs: 60_000 });
    await expect.poll(() => serverStates(served.url)).toEqual([ServerState.DRAINING]);
    const [stays, leaves] = agents;
    await leaves?.environment.close();
    await Promise.all([closed, registered.close()]);
    await expect(stays?.environment.step({ add: 1 })).rejects.toMatchObject({
      code: "UNAVAILABLE",
      origin: "server",
    });
    expect(await Promise.all(agents.map(({ next }) => next))).toEqual(["waiting", "completed"]);
  });
});

describe("an address that two servers register with", () => {
  it("belongs to the server that answers there; the other server receives an error and retries with a growing delay", async () => {
    const settings = { callbackMs: 60_000 };
    await using served = await serveMatchmaker({ profiles: [pairs], settings });
    const events: RegistrationEvent[] = [];
    await using first = await serveCounting(served.url, { onEvent: (event) => events.push(event) });
    await first.registration.registered;
    const faults: string[] = [];
    const pauses: number[] = [];
    const time: TimeSource = {
      ...systemTime,
      after(delayMs, callback) {
        pauses.push(delayMs);
        return systemTime.after(1, callback);
      },
    };
    await using _second = await serveCounting(served.url, {
      address: first.server.url,
      time,
      random: () => 1,
      onEvent: (event) => faults.push(event.kind === "failed" ? event.error.message : event.kind),
    });
    await expect.poll(() => pauses.length).toBeGreaterThan(5);
    const { serverId } = first.registration;
    for (const fault of faults) {
      expect(fault).toContain(`another server, "${serverId}", is registered at`);
    }
    expect(pauses.slice(0, 6)).toEqual([500, 1_000, 2_000, 4_000, 5_000, 5_000]);
    expect(events).toEqual([{ kind: "registered", matchmaker: served.url }]);
    const matchmaker = matchmakerClient(served.url, patient);
    const [seat] = await Promise.all([matchmaker.findMatch(), matchmaker.findMatch()]);
    expect(seat.address).toBe(first.server.url);
  });

  it("goes to the server that answers there, even if the other server registered first", async () => {
    await using served = await serveMatchmaker({ settings: { callbackMs: 60_000 } });
    let right: Registration | undefined;
    const authorize: ServeHooks["authorize"] = async (peer) =>
      (await right?.authorize(peer)) ?? ["agent"];
    await using server = await serve({ worlds: [counting], authorize });
    const address = server.url;
    const faults: string[] = [];
    const onEvent = (event: RegistrationEvent): void => {
      if (event.kind === "failed") {
        faults.push(event.error.message);
      }
    };
    await using wrong = await serveCounting(served.url, { address, onEvent });
    await wrong.registration.registered;
    await using registration = register({
      matchmakers: served.url,
      address,
      maxWorlds: 10,
      maxAgents: 20,
      worldTypes: [counting.name],
      worlds: () => server.worlds(),
    });
    right = registration;
    await registration.registered;
    wrong.registration.changed();
    await expect.poll(() => faults.at(-1)).toContain(`another server, "${registration.serverId}"`);
  });
});

/** Starts two agents that play; `next` resolves with the next state of each ticket. */
async function playing(url: string) {
  const matchmaker = matchmakerClient(url, patient);
  const join = async () => {
    const updates = matchmaker.find()[Symbol.asyncIterator]();
    const until = async (state: TicketUpdate["state"]): Promise<TicketUpdate> => {
      const { value } = await updates.next();
      if (value === undefined) {
        throw new Error(`the ticket ended before it was ${state}`);
      }
      return value.state === state ? value : await until(state);
    };
    const { assignment } = await until("assigned");
    if (assignment === undefined) {
      throw new Error("an assignment was expected");
    }
    const environment = await joinMatch(assignment, { as: counting });
    await until("joined");
    const next = updates.next().then(async ({ value }) => {
      await updates.return?.();
      return value?.state;
    });
    return { environment, next };
  };
  const agents = await Promise.all([join(), join()]);
  await Promise.all(agents.map(({ environment }) => environment.reset()));
  return agents;
}

/** Returns the states of the servers that a matchmaker knows. */
async function serverStates(url: string): Promise<ServerState[]> {
  const admin = createClient(AdminService, createGrpcTransport({ baseUrl: url }));
  const { servers } = await admin.listServers({});
  return servers.map(({ state }) => state);
}
