// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import type { WebSocketRoute } from "../listen/listen-options.ts";
import { type Serving, serving } from "../testing/serving.ts";
import { dialRelay } from "./dial-relay.ts";
import { Link, maxFrameBytes, relayPath, relaySubprotocol } from "./link.ts";

const pingIntervalMs = 50;

/** Serves a relay that accepts every program and sends only the pings of the test. */
async function silentRelay(): Promise<
  Serving & { readonly links: Link[]; readonly pongs: Promise<void> }
> {
  const links: Link[] = [];
  let frames = 0;
  let ponged: () => void = () => {};
  const pongs = new Promise<void>((resolve) => {
    ponged = resolve;
  });
  const accept: WebSocketRoute["accept"] = (socket) => {
    const link = new Link({
      socket,
      side: "relay",
      peerName: "the program",
      maxMessageBytes: 1_000,
      onHello: () =>
        link.welcome({ program: "game", address: "http://localhost:1", pingIntervalMs }),
      onActivity: () => {
        frames += 1;
        if (frames === 2) {
          ponged(); // The first frame is the hello.
        }
      },
      onClose: () => {},
    });
    links.push(link);
  };
  const route = { subprotocol: relaySubprotocol, maxMessageBytes: maxFrameBytes, accept };
  const server = await serving({ webSockets: new Map([[relayPath, route]]) });
  return Object.assign(server, { links, pongs });
}

const program = { token: "secret", instance: new Uint8Array(16), onStream: () => {} };

describe("a program that dials out", () => {
  test("loses a relay that sends nothing for three intervals of its pings", async () => {
    await using relay = await silentRelay();
    const place = await dialRelay(`ws://${relay.address}`, program);
    const { code, message } = await place.lost;
    expect(code).toBe("DEADLINE_EXCEEDED");
    expect(message).toContain("sent nothing for 150 ms");
  });

  test("keeps a relay whose ping arrived while the program was busy for longer", async () => {
    await using relay = await silentRelay();
    const place = await dialRelay(`ws://${relay.address}`, program);
    relay.links[0]?.ping();
    // After the tick that writes the ping, and before the program reads its socket.
    process.nextTick(() => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 250));
    const lost = place.lost.then(({ message }) => message);
    expect(await Promise.race([lost, relay.pongs.then(() => "pong")])).toBe("pong");
    await place.lost;
  });
});
