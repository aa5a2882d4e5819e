// SPDX-License-Identifier: Apache-2.0
import { openConnectStream, openStream } from "@dm-env-rpc/transport";
import { describe, expect, it } from "vitest";
import { serving } from "../../testing/network.ts";
import { Peer } from "../../testing/peer.ts";
import { tally } from "../../testing/tally.ts";
import type { Server } from "./serve.ts";

/** Requests that a peer keeps in flight. */
const inFlight = 400;

const carriers = [
  ["gRPC", (server: Server) => openStream(server.url)],
  ["WebSocket", (server: Server) => openStream(server.url.replace("http", "ws"))],
  ["Connect", (server: Server) => openConnectStream(server.url)],
] as const;

describe.each(carriers)("closing a server, over %s", (_name, open) => {
  it("answers each request of an agent that steps on and on, or ends its stream with UNAVAILABLE", async () => {
    await using server = await serving({ worlds: [tally()] });
    await using stream = await open(server);
    const peer = new Peer(stream);
    await peer.join(await peer.createWorld({ length: 1_000_000 }));
    const states = new Set<string>();
    let sent = 0;
    let isOver = false;
    const stepOn = async (): Promise<void> => {
      while (!isOver) {
        sent += 1;
        states.add(await peer.step({}, []).then(({ state }) => state, String));
      }
    };
    for (let agents = 0; agents < inFlight; agents++) {
      void stepOn();
    }
    while (peer.received < 2 * inFlight) {
      await new Promise((resolve) => setImmediate(resolve));
    }
    const closed = server.close({ graceMs: 60_000 });
    const end = await peer.closed;
    isOver = true;
    await closed;
    expect(end).toMatchObject({
      code: "UNAVAILABLE",
      message: expect.stringContaining("the server is shutting down"),
    });
    expect(states).toContain("INTERRUPTED");
    expect(peer.received).toBeLessThanOrEqual(sent + 2);
  });

  it("answers each request of an agent that has ended its side, or ends its stream with UNAVAILABLE", async () => {
    await using server = await serving({ worlds: [tally()] });
    await using stream = await open(server);
    const peer = new Peer(stream);
    await peer.join(await peer.createWorld({ length: 1_000_000 }));
    await peer.step();
    const before = peer.received;
    const closed = server.close({ graceMs: 60_000 });
    for (let sent = 0; sent < inFlight; sent++) {
      peer.step().catch(() => {});
    }
    stream.end();
    const end = await peer.closed;
    await closed;
    if (end === undefined) {
      expect(peer.received - before).toBe(inFlight);
    } else {
      expect(end).toMatchObject({ code: "UNAVAILABLE" });
    }
  });
});
