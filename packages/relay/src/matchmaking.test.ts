// SPDX-License-Identifier: Apache-2.0

import { serveMatchmaker } from "@dm-env-rpc/matchmaker";
import { joinMatch, matchmakerClient } from "@dm-env-rpc/matchmaker/client";
import { serveRegistered } from "@dm-env-rpc/matchmaker/registration";
import { createEnvironmentServer, dialOut } from "@dm-env-rpc/server";
import { expect, it } from "vitest";
import { pairs } from "../../matchmaker/testing/pairs.ts";
import { counting } from "../../matchmaker/testing/world-server.ts";
import { gameToken, serving } from "../testing/relaying.ts";

/** Long timeout, so that a stalled test machine is not mistaken for an unresponsive matchmaker. */
const patient = { timeoutMs: 60_000 };

it("lets a program register with a matchmaker, whose agents join the program with their tokens", async () => {
  await using relay = await serving();
  await using matchmaker = await serveMatchmaker({ profiles: [pairs] });
  await using registered = await serveRegistered(
    async (hooks) => {
      const server = createEnvironmentServer({ worlds: [counting], ...hooks });
      const place = await dialOut(server, { relay: relay.dial, token: gameToken });
      return {
        url: place.address,
        worlds: () => server.worlds(),
        async close(options) {
          await server.close(options);
          await place.close();
        },
      };
    },
    {
      matchmakers: matchmaker.url,
      maxWorlds: 10,
      maxAgents: 20,
      worldTypes: [counting.name],
      ...patient,
    },
  );
  await registered.registration.registered;
  const client = matchmakerClient(matchmaker.url, patient);
  const tickets = await Promise.all([client.findMatch(), client.findMatch()]);
  expect(tickets.map(({ address }) => address)).toEqual(Array(2).fill(registered.server.url));
  const agents = await Promise.all(tickets.map((ticket) => joinMatch(ticket, { as: counting })));
  const began = await Promise.all(agents.map((agent) => agent.reset()));
  expect(began.map(({ observation }) => observation.total)).toEqual([100, 100]);
  await Promise.all(agents.map((agent) => agent.close()));
});
