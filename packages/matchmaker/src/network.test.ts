// SPDX-License-Identifier: Apache-2.0

import { once } from "node:events";
import { createServer } from "node:http2";
import type { AddressInfo } from "node:net";
import { createClient, type Transport } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { connect } from "@dm-env-rpc/client";
import { FrontendService, RegistryService } from "@dm-env-rpc/protocol/matchmaker";
import { freePort } from "@dm-env-rpc/tests-processes";
import { systemTime } from "@dm-env-rpc/transport/internal";
import { describe, expect, it } from "vitest";
import { pairs } from "../testing/pairs.ts";
import { serveSilence } from "../testing/silent-server.ts";
import { counting, serveCounting } from "../testing/world-server.ts";
import { joinMatch, matchmakerClient } from "./client/index.ts";
import type { MatchmakerEvent } from "./model/events.ts";
import { serveMatchmaker } from "./serve-matchmaker.ts";
import { tokenIssuer } from "./tokens/issuer.ts";
import { generateSigningKey } from "./tokens/keys.ts";

describe("on the network", () => {
  it("agents find a match, play it and leave, and its world is destroyed", async () => {
    const events: MatchmakerEvent[] = [];
    let onEvent = (_event: MatchmakerEvent): void => {};
    await using served = await serveMatchmaker({
      profiles: [pairs],
      onEvent: (event) => {
        events.push(event);
        onEvent(event);
      },
    });
    await using registered = await serveCounting(served.url);
    await registered.registration.registered;
    const matchmaker = matchmakerClient(served.url);

    const play = async (): Promise<{ world: string; totals: unknown[] }> => {
      const assignment = await matchmaker.findMatch();
      await using env = await joinMatch(assignment, { as: counting });
      const totals: unknown[] = [];
      for (let step = await env.reset(); ; step = await env.step({ add: 1 })) {
        totals.push(step.observation.total);
        if (step.last()) {
          return { world: env.world, totals };
        }
      }
    };
    const destroyed = new Promise<void>((resolve) => {
      onEvent = ({ kind }) => {
        if (kind === "world-destroyed") {
          resolve();
        }
      };
    });
    const [one, two] = await Promise.all([play(), play()]);
    expect(one).toEqual({ world: "counting-1", totals: [100, 102, 104, 106] });
    expect(two).toEqual(one);
    await destroyed;
    expect(registered.server.worldNames()).toEqual([]);
    expect(events.filter(({ kind }) => kind.endsWith("failed"))).toEqual([]);
  });

  it("only the matchmaker creates worlds on its servers", async () => {
    await using served = await serveMatchmaker();
    await using registered = await serveCounting(served.url);
    await registered.registration.registered;
    await using stranger = await connect(registered.server.url);
    await expect(stranger.createWorld({ settings: { start: 1 } })).rejects.toThrow(/operator/);
  });

  it("find yields a ticket's states from waiting to assigned, and skips a matchmaker that is gone", async () => {
    await using served = await serveMatchmaker({ profiles: [pairs] });
    const matchmaker = matchmakerClient(["127.0.0.1:1", served.url]);
    const other = matchmakerClient(served.url);
    await using registered = await serveCounting(served.url);
    await registered.registration.registered;
    const states: string[] = [];
    let partner: Promise<unknown> | undefined;
    for await (const { state } of matchmaker.find()) {
      states.push(state);
      partner ??= other.findMatch();
      if (state === "assigned") {
        break;
      }
    }
    await partner;
    expect(states[0]).toBe("waiting");
  });

  it("agents and servers call the next matchmaker if one accepts calls but does not answer", async () => {
    await using served = await serveMatchmaker({ profiles: [pairs] });
    for (const speaks of ["nothing", "HTTP/2"] as const) {
      await using frozen = await serveSilence(speaks);
      const matchmakers = [frozen.address, served.url];
      await using registered = await serveCounting(matchmakers, { timeoutMs: 1_000 });
      await registered.registration.registered;
      const patience = { timeoutMs: 1_000, ticketSecret: "shared" };
      const one = matchmakerClient(matchmakers, patience);
      const two = matchmakerClient(matchmakers, patience);
      const [{ ticketId }] = await Promise.all([one.findMatch(), two.findMatch()]);
      // Each client calls the silent matchmaker first. While this machine stalls, the other matchmaker may
      // also seem silent.
      const get = () => matchmakerClient(matchmakers, patience).get(ticketId);
      await expect.poll(() => get().catch(String)).toMatchObject({ ticketId, state: "assigned" });
    }
  });

  it("joinMatch fails when its seat has expired, if the server accepts connections but does not answer", async () => {
    const key = await generateSigningKey();
    const issuer = await tokenIssuer(() => [key]);
    for (const speaks of ["nothing", "HTTP/2"] as const) {
      await using frozen = await serveSilence(speaks);
      const { address } = frozen;
      const joinToken = await issuer.joinToken({
        ...{ ticketId: "ticket", partySize: 1, matchId: "match", seatId: "seat" },
        ...{ part: { team: "", role: "", data: {} }, serverId: "server", address },
        worldName: "world",
        // The clock of this machine differs from that of the matchmaker.
        nowMs: 0,
        expiresMs: 1_000,
      });
      const joining = joinMatch({ address, worldName: "world", joinToken });
      await expect(joining).rejects.toMatchObject({
        code: "DEADLINE_EXCEEDED",
        origin: "connection",
        message: `the server at ${address} did not admit the agent within 1000 ms, the time for which its seat was reserved; create another ticket`,
      });
    }
  });

  it("a call whose connection breaks is repeated at the next matchmaker", async () => {
    await using served = await serveMatchmaker({ profiles: [pairs] });
    await using _registered = await serveCounting(served.url);
    const dying = createServer();
    dying.on("stream", (stream) => {
      stream.on("error", () => stream.destroy());
      stream.session?.goaway(2);
    });
    dying.listen(0, "127.0.0.1");
    await once(dying, "listening");
    const { port } = dying.address() as AddressInfo;
    const matchmakers = [`127.0.0.1:${port}`, served.url];
    const [one, two] = [matchmakerClient(matchmakers), matchmakerClient(matchmakers)];
    await Promise.all([one.findMatch(), two.findMatch()]);
    dying.close();
  });

  it("a watch that is never answered is opened at the next matchmaker", async () => {
    await using served = await serveMatchmaker({ profiles: [pairs] });
    await using _registered = await serveCounting(served.url);
    await using frozen = await serveSilence("HTTP/2");
    const grpc = createGrpcTransport({ baseUrl: served.url });
    const silent = createGrpcTransport({ baseUrl: `http://${frozen.address}` });
    const half: Transport = { unary: grpc.unary.bind(grpc), stream: silent.stream.bind(silent) };
    const matchmaker = matchmakerClient("the first", {
      transports: [half, grpc],
      timeoutMs: 1_000,
    });
    await Promise.all([matchmaker.findMatch(), matchmakerClient(served.url).findMatch()]);
  });

  it("a waiting ticket is created again at a restarted matchmaker that has lost its state", async () => {
    // No other process can take the port in the meantime.
    const first = await serveMatchmaker({ profiles: [pairs], port: await freePort() });
    await using _closing = first;
    const updates = matchmakerClient(first.url).find()[Symbol.asyncIterator]();
    const waiting = await updates.next();
    await first.close();
    await using second = await serveMatchmaker({ profiles: [pairs], port: first.port });
    await using _registered = await serveCounting(second.url);
    const partner = matchmakerClient(second.url).findMatch();
    let state: string | undefined;
    while (state !== "assigned") {
      const { value } = await updates.next();
      expect(value?.ticketId).toBe(waiting.value?.ticketId);
      state = value?.state;
    }
    await partner;
    await updates.return?.();
  });

  it("a ticket that the matchmaker has lost before its watch begins is created again", async () => {
    await using forgetful = await serveMatchmaker({ profiles: [pairs] });
    await using served = await serveMatchmaker({ profiles: [pairs] });
    await using _registered = await serveCounting(served.url);
    const grpc = createGrpcTransport({ baseUrl: served.url });
    const lost = createGrpcTransport({ baseUrl: forgetful.url });
    const created: Promise<unknown>[] = [];
    // The first call reaches one matchmaker, and all later calls another one with another store.
    const restarted: Transport = {
      unary(...call) {
        const answer = (created.length === 0 ? lost : grpc).unary(...call);
        created.push(answer);
        return answer;
      },
      stream: grpc.stream.bind(grpc),
    };
    const matchmaker = matchmakerClient("the first", { transports: [restarted] });
    await Promise.all([matchmaker.findMatch(), matchmakerClient(served.url).findMatch()]);
    expect(created.length).toBeGreaterThan(1);
  });

  it("findMatch leaves no watch behind", async () => {
    await using served = await serveMatchmaker({ profiles: [pairs] });
    await using _registered = await serveCounting(served.url);
    const grpc = createGrpcTransport({ baseUrl: served.url });
    const watches: (AbortSignal | undefined)[] = [];
    const transport: Transport = {
      unary: grpc.unary.bind(grpc),
      stream(method, signal, ...rest) {
        watches.push(signal);
        return grpc.stream(method, signal, ...rest);
      },
    };
    const matchmaker = matchmakerClient(served.url, { transports: [transport] });
    await Promise.all([matchmaker.findMatch(), matchmaker.findMatch()]);
    expect(watches.map((signal) => signal?.aborted)).toEqual([true, true]);
  });

  it("a ticket whose iteration is left, or whose signal aborts, is cancelled", async () => {
    await using served = await serveMatchmaker({ profiles: [pairs] });
    const matchmaker = matchmakerClient(served.url, { timeoutMs: 60_000 });
    let ticketId = "";
    for await (const update of matchmaker.find()) {
      ({ ticketId } = update);
      break;
    }
    expect(await matchmaker.get(ticketId)).toMatchObject({ state: "cancelled" });
    const ended = AbortSignal.abort(new Error("enough"));
    await expect(matchmaker.findMatch({}, { signal: ended })).rejects.toMatchObject({
      code: "CANCELLED",
      origin: "client",
      cause: ended.reason,
    });
  });

  it("an address where no server listens is refused, and the error names the remedy", async () => {
    await using served = await serveMatchmaker();
    const registry = createClient(RegistryService, createGrpcTransport({ baseUrl: served.url }));
    const request = {
      serverId: "lost",
      address: "127.0.0.1:1",
      capacity: { maxWorlds: 1, maxAgents: 1 },
      worldTypes: ["counting"],
    };
    await expect(registry.registerServer(request)).rejects.toThrow(
      /\[failed_precondition\] expected a dm_env_rpc server at "127\.0\.0\.1:1".*register the address/,
    );
    // A server of another kind is also refused.
    await expect(registry.registerServer({ ...request, address: served.url })).rejects.toThrow(
      /failed_precondition/,
    );
  });

  it.each(["nothing", "HTTP/2"] as const)(
    "an address whose server speaks %s and never answers is refused after callbackMs, without other effects",
    async (speaks) => {
      await using silent = await serveSilence(speaks);
      await using served = await serveMatchmaker({
        profiles: [pairs],
        settings: { callbackMs: 300 },
      });
      const registry = createClient(RegistryService, createGrpcTransport({ baseUrl: served.url }));
      const request = {
        serverId: "silent",
        address: silent.address,
        capacity: { maxWorlds: 1, maxAgents: 1 },
        worldTypes: ["counting"],
      };
      const refused = expect(
        registry.registerServer(request, { timeoutMs: 30_000 }),
      ).rejects.toThrow(/\[failed_precondition\] expected a dm_env_rpc server at "127\.0\.0\.1:/);
      await using _registered = await serveCounting(served.url);
      const matchmaker = matchmakerClient(served.url);
      await Promise.all([matchmaker.findMatch(), matchmaker.findMatch()]);
      await refused;
    },
  );

  it("a ticket of a megabyte is refused, without other effects", async () => {
    await using served = await serveMatchmaker();
    const frontend = createClient(FrontendService, createGrpcTransport({ baseUrl: served.url }));
    const value = new Uint8Array(1_000_000);
    const extensions = { large: { typeUrl: "type.googleapis.com/large", value } };
    await expect(frontend.createTicket({ extensions })).rejects.toThrow(
      /\[resource_exhausted\] .*1000/,
    );
    const large = { typeUrl: "type.googleapis.com/large", value: new Uint8Array(20_000) };
    await expect(frontend.createTicket({ extensions: { large } })).rejects.toThrow(
      /\[resource_exhausted\] expected a ticket of at most 16384 bytes, received one of 200/,
    );
    await frontend.createTicket({});
  });

  it("a server whose clock is hours off checks tokens by the matchmaker's clock", async () => {
    await using served = await serveMatchmaker({ profiles: [pairs] });
    const behind = { ...systemTime, now: () => systemTime.now() - 5 * 3_600_000 };
    const ahead = { ...systemTime, now: () => systemTime.now() + 5 * 3_600_000 };
    const matchmaker = matchmakerClient(served.url, { timeoutMs: 60_000 });
    for (const time of [behind, ahead]) {
      await using registered = await serveCounting(served.url, { time });
      const { registration } = registered;
      await registration.registered;
      const [one, two] = await Promise.all([matchmaker.findMatch(), matchmaker.findMatch()]);
      const { seats } = registration;
      await expect(seats.take(one.joinToken, "counting-2")).rejects.toThrow(
        /expected a token for the world "counting-2"/,
      );
      const seat = await seats.take(one.joinToken, one.worldName);
      expect(seat.claims.ticketId).toBe(one.ticketId);
      await seats.take(two.joinToken, two.worldName);
      await expect(seats.take(two.joinToken, two.worldName)).rejects.toThrow(/has been taken/);
      seat.leave();
      await Promise.all([one, two].map(({ ticketId }) => matchmaker.cancel(ticketId)));
    }
  });
});
