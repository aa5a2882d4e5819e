// SPDX-License-Identifier: Apache-2.0
import { createServer } from "node:http";
import { type AddressInfo, createServer as createTcpServer } from "node:net";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { AdminService, RegistryService } from "@dm-env-rpc/protocol/matchmaker";
import { freePort } from "@dm-env-rpc/tests-processes";
import { describe, expect, it } from "vitest";
import { Fleet } from "../../testing/fleet.ts";
import { pairs } from "../../testing/pairs.ts";
import { SimulatedServer } from "../../testing/simulated-servers.ts";
import { serveCounting } from "../../testing/world-server.ts";
import { matchmakerClient } from "../client/index.ts";
import { serveMatchmaker } from "../serve-matchmaker.ts";

const offer = { capacity: { maxWorlds: 10, maxAgents: 20 }, worldTypes: ["gridworld"] };
const denied =
  /\[permission_denied\] server_secret: expected the secret that server "a" registered/;

describe("the id of a server", () => {
  it("belongs to the process that registered it: no other process can register it or act for it", async () => {
    await using fleet = await Fleet.open({ authorize: () => ["agent", "server"] });
    const [mine, thief] = [new SimulatedServer("a"), new SimulatedServer("thief")];
    for (const server of [mine, thief]) {
      fleet.servers.add(server);
    }
    const serverSecret = "known to this process alone";
    const registration = { ...offer, serverId: "a", joinTokens: true };
    const { epoch } = await fleet.registry.registerServer({
      ...registration,
      address: mine.address,
      serverSecret,
    });
    for (const guess of ["", "a guess"]) {
      const stolen = { serverId: "a", serverSecret: guess };
      for (const call of [
        fleet.registry.registerServer({ ...registration, ...stolen, address: thief.address }),
        fleet.registry.renewServer({ ...stolen, epoch, worlds: [] }),
        fleet.registry.drainServer(stolen),
        fleet.registry.deregisterServer(stolen),
      ]) {
        await expect(call).rejects.toThrow(denied);
      }
    }
    // The matchmaker refuses before it calls the server back.
    thief.isUp = false;
    await expect(
      fleet.registry.registerServer({ ...registration, serverId: "a", address: thief.address }),
    ).rejects.toThrow(denied);
    const ticketSecret = "mine";
    const [ticketId = ""] = await fleet.tickets(2, { ticketSecret });
    await fleet.settle();
    const { ticket } = await fleet.frontend.getTicket({ ticketId, ticketSecret });
    expect(ticket?.assignment?.address).toBe(mine.address);
    await fleet.registry.renewServer({ serverId: "a", serverSecret, epoch, worlds: [] });
    await fleet.registry.registerServer({ ...registration, address: mine.address, serverSecret });
    await fleet.registry.drainServer({ serverId: "a", serverSecret });
    await fleet.registry.deregisterServer({ serverId: "a", serverSecret });
  });

  it("is also refused to a second registration by the same process", async () => {
    await using served = await serveMatchmaker({ profiles: [pairs] });
    await using first = await serveCounting(served.url);
    await first.registration.registered;
    const { serverId } = first.registration;
    const faults: string[] = [];
    await using _second = await serveCounting(served.url, {
      serverId,
      onEvent: (event) => faults.push(event.kind === "failed" ? event.error.message : event.kind),
    });
    await expect.poll(() => faults[0]).toMatch(/^server_secret: expected the secret that server/);
    const matchmaker = matchmakerClient(served.url);
    const [match] = await Promise.all([matchmaker.findMatch(), matchmaker.findMatch()]);
    expect(match.address).toBe(first.server.url);
  });

  it("does not protect the server from an operator, which may drain and deregister it", async () => {
    await using fleet = await Fleet.open({ authorize: () => ["agent", "operator"] });
    const server = fleet.servers.add(new SimulatedServer("a"));
    const { address } = server;
    await fleet.registry.registerServer({ ...offer, serverId: "a", address, serverSecret: "mine" });
    await fleet.registry.drainServer({ serverId: "a" });
    await fleet.registry.deregisterServer({ serverId: "a" });
  });
});

it("a caller with the role server registers servers, but reads and changes nothing else", async () => {
  await using fleet = await Fleet.open({
    authorize: ({ metadata }) =>
      metadata.get("authorization") === "Bearer server" ? ["server"] : ["agent"],
  });
  const { address } = fleet.servers.add(new SimulatedServer("a"));
  const asServer = { headers: { authorization: "Bearer server" } };
  const request = { ...offer, serverId: "a", address };
  await expect(fleet.registry.registerServer(request)).rejects.toThrow(
    /\[permission_denied\] RegistryService: expected a caller with the role "server" or "operator"/,
  );
  await fleet.registry.registerServer(request, asServer);
  for (const call of [
    fleet.admin.listServers({}, asServer),
    fleet.admin.deleteProfile({ name: "any" }, asServer),
    fleet.frontend.createTicket({}, asServer),
  ]) {
    await expect(call).rejects.toThrow(/\[permission_denied\]/);
  }
});

it("a caller with the role operator may call every service", async () => {
  await using fleet = await Fleet.open({ authorize: () => ["operator"] });
  const { address } = fleet.servers.add(new SimulatedServer("a"));
  await fleet.registry.registerServer({ ...offer, serverId: "a", address });
  await fleet.frontend.createTicket({ ticketId: "t", priority: 1 });
  const { servers } = await fleet.admin.listServers({});
  const { tickets } = await fleet.admin.listTickets({});
  expect([servers, tickets].map(([first]) => first?.id)).toEqual(["a", "t"]);
});

it.each(["127.0.0.1:PORT", "http://127.0.0.1:PORT"])(
  "an address is recognized in any spelling: %s",
  async (written) => {
    await using served = await serveMatchmaker({
      profiles: [pairs],
      settings: { callbackMs: 60_000 },
    });
    await using first = await serveCounting(served.url);
    await first.registration.registered;
    const port = String(new URL(first.server.url).port);
    const registry = createClient(RegistryService, createGrpcTransport({ baseUrl: served.url }));
    await expect(
      registry.registerServer({
        ...offer,
        serverId: "other",
        address: written.replace("PORT", port),
        joinTokens: true,
      }),
    ).rejects.toThrow(/\[already_exists\] another server/);
  },
);

it("a registration reveals no open port of the matchmaker's network: a closed port, a web server and a silent port cause the same error", async () => {
  const web = createServer((_, response) => response.writeHead(418).end());
  const mute = createTcpServer((socket) => socket.on("error", () => {}));
  const portOf = async (server: typeof web | typeof mute): Promise<number> => {
    await new Promise<void>((resolve) => {
      server.listen(0, "127.0.0.1", resolve);
    });
    return (server.address() as AddressInfo).port;
  };
  const ports = [await freePort(), await portOf(web), await portOf(mute)];
  await using served = await serveMatchmaker({ settings: { callbackMs: 300 } });
  const registry = createClient(RegistryService, createGrpcTransport({ baseUrl: served.url }));
  const errors = new Set<string>();
  for (const port of ports) {
    const address = `127.0.0.1:${port}`;
    const refused = await registry
      .registerServer({ ...offer, serverId: "probe", address })
      .catch((error: unknown) => String(error));
    errors.add(String(refused).replaceAll(String(port), "PORT"));
  }
  expect([...errors]).toEqual([
    'ConnectError: [failed_precondition] expected a dm_env_rpc server at "127.0.0.1:PORT", received no valid answer within 300 ms; register the address under which the matchmaker and the agents reach the server, once it listens',
  ]);
  web.close();
  mute.close();
});

it.each([
  "169.254.169.254:80",
  "http://169.254.169.254",
  "[fe80::1]:8980",
  "[::ffff:169.254.169.254]:80",
  "[64:ff9b::169.254.169.254]:80",
  "[fd00:ec2::23]:80",
  "[fd00:ec2::254]:80",
  "[64:ff9b::168.63.129.16]:80",
  "[fd20:ce::254]:80",
  "168.63.129.16:80",
  "100.100.100.200:80",
  "192.0.0.192:80",
  "ws://169.254.169.254:80",
  "unix:/tmp/no-such.sock",
  "unix:no-such.sock",
])(
  "an address that agents on other machines cannot reach is refused without being called: %s",
  async (address) => {
    await using served = await serveMatchmaker();
    const transport = createGrpcTransport({ baseUrl: served.url });
    await expect(
      createClient(RegistryService, transport).registerServer({ ...offer, serverId: "a", address }),
    ).rejects.toThrow(
      /\[invalid_argument\] address: expected an address that agents can reach, received/,
    );
    expect((await createClient(AdminService, transport).listServers({})).servers).toEqual([]);
  },
);
