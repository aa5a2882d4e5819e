// SPDX-License-Identifier: Apache-2.0
import { createEnvironmentServer, dialOut } from "@dm-env-rpc/server";
import { ours } from "../peers/ours.ts";
import type { Peer } from "../peers/peer.ts";

/** Token of the program in Node at the relay of a bench. */
export const programToken = "token-of-the-node-program";

/** The product as a program that has no port and dials out to a relay. */
export const relayed: Peer = {
  async serve(load, relay) {
    if (relay === undefined) {
      throw new Error("the address of the relay is missing");
    }
    const server = createEnvironmentServer({ worlds: [load.world] });
    const place = await dialOut(server, { relay, token: programToken });
    return { port: Number(new URL(place.address).port), close: () => server.close() };
  },
  connect: ours.connect,
};
