// SPDX-License-Identifier: Apache-2.0
import { readFileSync } from "node:fs";
import { inspect } from "node:util";
import { create } from "@bufbuild/protobuf";
import { ReadPropertyRequestSchema } from "@dm-env-rpc/protocol";
import { t, toNested, unpack } from "@dm-env-rpc/tensor-codec";
import { unpackTensor } from "@dm-env-rpc/tensor-codec/proto";
import { memoryStreamPair } from "@dm-env-rpc/transport";
import { describe, expect, it } from "vitest";
import { connectPeer, Peer } from "../../testing/peer.ts";
import { tally } from "../../testing/tally.ts";
import { property } from "../definition/property.ts";
import type { Role } from "../definition/roles.ts";
import { defineWorld } from "../definition/world.ts";
import {
  createEnvironmentServer,
  type EnvironmentServer,
  type EnvironmentServerOptions,
} from "./environment-server.ts";
import type { ServerEvent } from "./events.ts";

async function read(peer: Peer, key: string): Promise<unknown> {
  const value = create(ReadPropertyRequestSchema, { keys: [key] });
  const response = await peer.send({ case: "readProperty", value });
  if (response.case !== "readProperty") {
    throw new Error(response.case === "error" ? response.value.message : response.case);
  }
  const tensor = response.value.properties[key];
  return tensor && toNested(unpack(unpackTensor(tensor)) as never);
}

const missing = "/srv/my game/level.json";

/** Reads a file that does not exist, as an author's code does. */
function load(): never {
  readFileSync(missing);
  throw new Error("unreachable");
}

describe("behaviour 7: paths in the errors of an author's code", () => {
  const fragile = defineWorld({
    name: "fragile",
    settings: { where: t.string() },
    actions: {},
    observations: {},
    create({ settings: { where } }) {
      if (where === "create") {
        load();
      }
      return {
        join: () => (where === "join" ? load() : undefined),
        step: () => (where === "step" ? load() : undefined),
        observe: {},
        properties: { level: property(t.int32(), { read: load }) },
      };
    },
  });

  it.each(["create", "join", "step", "property"])(
    "are told to the operator and not to agents: %s",
    async (where) => {
      const events: ServerEvent[] = [];
      const server = createEnvironmentServer({
        worlds: [fragile],
        onEvent: (event) => events.push(event),
      });
      const peer = connectPeer(server);
      const play = async (): Promise<void> => {
        await peer.join(await peer.createWorld({ where }));
        await peer.step();
        await peer.step();
        await read(peer, "level");
      };
      const message = await play().then(() => "no error", String);
      expect(message).toContain("ENOENT: no such file or directory, open '<path>'");
      expect(message).not.toContain("/srv");
      expect(inspect(events, { depth: 8 })).toContain(missing);
      await server.close();
    },
  );
});

describe("the permission to read the names of the worlds", () => {
  function connectAs(server: EnvironmentServer, roles: string): Peer {
    const [client, stream] = memoryStreamPair({ metadata: new Map([["roles", roles]]) });
    server.accept(stream);
    return new Peer(client);
  }

  const seat = { leave() {}, giveBack() {} };
  const free: Partial<EnvironmentServerOptions> = {};
  const assigned: Partial<EnvironmentServerOptions> = { joinToken: () => seat };

  it.each<[string, Partial<EnvironmentServerOptions>, string, boolean]>([
    ["is not granted without a role", free, "", false],
    ["is granted to an agent", free, "agent", true],
    ["is not granted to an agent that needs a join token", assigned, "agent", false],
    ["is granted to a spectator", assigned, "spectator", true],
    ["is granted to an operator", assigned, "operator", true],
  ])("%s", async (_what, options, roles, mayRead) => {
    const server = createEnvironmentServer({
      worlds: [tally()],
      premade: [{}],
      authorize: ({ metadata }) => metadata.get("roles")?.split(" ").filter(Boolean) as Role[],
      ...options,
    });
    await server.ready;
    const peer = connectAs(server, roles);
    const names = await read(peer, "worlds.names").catch(String);
    if (mayRead) {
      expect(names).toEqual(["tally-1"]);
    } else {
      expect(names).toMatch(/cannot list the worlds: expected the role "operator"/);
    }
    if (roles === "agent") {
      const known = mayRead ? /current worlds: "tally-1"/ : /check the name/;
      await expect(peer.join("tally-7")).rejects.toThrow(known);
      await expect(peer.join("tally-7")).rejects.toThrow(/^5: unknown world "tally-7"/);
    }
    await server.close();
  });
});
