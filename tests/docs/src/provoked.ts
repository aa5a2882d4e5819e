// SPDX-License-Identifier: Apache-2.0
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { createServer as createTlsServer } from "node:tls";
import { Worker } from "node:worker_threads";
import { type Connection, connect, gymnasium } from "@dm-env-rpc/client";
import { realtime } from "@dm-env-rpc/client/realtime";
import { serveMatchmaker } from "@dm-env-rpc/matchmaker";
import { joinMatch } from "@dm-env-rpc/matchmaker/client";
import { register } from "@dm-env-rpc/matchmaker/registration";
import { serveRelay } from "@dm-env-rpc/relay";
import {
  defineWorld,
  lockstep,
  optional,
  required,
  type ServeOptions,
  serve,
} from "@dm-env-rpc/server";
import { pack, t } from "@dm-env-rpc/tensor-codec";
import {
  authority,
  expiredPair,
  serverPair,
} from "../../../packages/transport/src/testing/certificates.ts";

/** A world that can fail in many ways. */
const counter = defineWorld({
  name: "counter",
  settings: {
    goal: t.int32({ min: 1, max: 100 }),
    fault: optional(t.string()),
  },
  joinSettings: { name: optional(t.string()) },
  actions: { add: required(t.int8({ min: 0, max: 3 })) },
  observations: { total: t.int32({ min: 0, max: 100 }) },
  clock: lockstep({ deadlineMs: 50, onMissedDeadline: "leave" }),
  agents: { max: 2 },
  create({ settings: { fault } }) {
    let total = 0;
    return {
      step(actions) {
        if (fault === "throw") {
          throw new Error("the dice are gone");
        }
        if (fault === "hang") {
          return new Promise<void>(() => {});
        }
        for (const { add = 0 } of actions.values()) {
          total += add;
        }
        return undefined;
      },
      observe: { total: () => (fault === "observation" ? -1 : total) },
    };
  },
});

const patient = defineWorld({ ...counter, name: "patient", clock: lockstep() });

/** Misspelled names, typed so that the compiler accepts them. */
const misspelled: { readonly hook: object; readonly option: object } = {
  hook: { strat() {} },
  option: { onLeav: "block" },
};

/** Returns the error that a function throws. */
async function errorOf(failing: () => unknown): Promise<Error> {
  try {
    await failing();
  } catch (error) {
    if (error instanceof Error) {
      return error;
    }
    throw error;
  }
  throw new Error("expected an error");
}

interface Scene {
  readonly connection: Connection;
  readonly url: string;
  close(): Promise<void>;
}

/** Provokes an error over a connection to a server. */
function served(
  failing: (scene: Scene) => unknown,
  options: Partial<ServeOptions> = {},
): () => Promise<Error> {
  return async () => {
    await using server = await serve({ worlds: [patient], ...options });
    await using connection = await connect(server.url);
    const close = () => server.close({ graceMs: 60_000 });
    return await errorOf(() => failing({ connection, url: server.url, close }));
  };
}

/** A program that dials out to the relay at `workerData`, and posts its address. */
const relayedProgram = `
  import { parentPort, workerData } from "node:worker_threads";
  import { createEnvironmentServer, defineEnvironment, dialOut } from "${import.meta.resolve("@dm-env-rpc/server")}";

  const game = defineEnvironment({
    name: "game",
    actions: {},
    observations: {},
    create: () => ({ reset: () => ({}), step: () => ({ observation: {} }) }),
  });
  const server = createEnvironmentServer({ worlds: [game], premade: [{}] });
  const { address } = await dialOut(server, workerData);
  parentPort.postMessage(address);
`;

/** Provokes an error of an agent that plays a program behind a relay, once the program has died. */
function relayed(
  failing: (agent: Awaited<ReturnType<typeof joinGame>>, address: string) => unknown,
): () => Promise<Error> {
  return async () => {
    const token = "the token of the program";
    await using relay = await serveRelay({ programs: [{ name: "game", token }] });
    const workerData = { relay: relay.url.replace("http", "ws"), token };
    const source = new URL(`data:text/javascript,${encodeURIComponent(relayedProgram)}`);
    const program = new Worker(source, { workerData });
    const [address] = (await once(program, "message")) as [string];
    const agent = await joinGame(address);
    await program.terminate();
    try {
      return await errorOf(() => failing(agent, address));
    } finally {
      await agent.connection.close();
    }
  };
}

async function joinGame(address: string) {
  return await (await connect(address)).join("game-1");
}

/** Provokes an error of an agent that has joined. */
function joined(
  failing: (agent: Awaited<ReturnType<typeof join>>, scene: Scene) => unknown,
  settings: Parameters<typeof join>[1] = {},
  options: Partial<ServeOptions> = {},
): () => Promise<Error> {
  return served(async (scene) => failing(await join(scene.connection, settings), scene), options);
}

async function join(connection: Connection, settings: { readonly fault?: string }) {
  const world = await connection.createWorld({ settings: { goal: 9, ...settings } });
  return await connection.join(world, { as: patient });
}

const tensor = (value: number, dtype: "int8" | "float64") => pack(value, { dtype });

/** Functions that provoke the error of each message, in the order of the page. */
export const provoked: Readonly<Record<string, () => Promise<Error>>> = {
  nobody: () => errorOf(() => connect("localhost:1")),
  notHttp2: served(({ url }) => connect(url.replace("http:", "https:"))),
  expired: async () => {
    await using server = await serve({ worlds: [], tls: expiredPair });
    return await errorOf(() => connect(server.url, { tls: { ca: expiredPair.cert } }));
  },
  handshakeRefused: async () => {
    const server = createTlsServer({ ...serverPair, ALPNProtocols: ["other"] });
    await once(server.listen(0, "127.0.0.1"), "listening");
    const { port } = server.address() as AddressInfo;
    try {
      return await errorOf(() => connect(`https://127.0.0.1:${port}`, { tls: { ca: authority } }));
    } finally {
      server.close();
    }
  },
  loopback: () => errorOf(() => serve({ worlds: [], host: "0.0.0.0" })),
  portInUse: served(({ url }) => serve({ worlds: [], port: Number(new URL(url).port) })),
  unauthenticated: served(({ connection }) => connection.createWorld(), {
    authorize: () => undefined,
  }),
  role: served(({ connection }) => connection.createWorld(), { authorize: () => ["agent"] }),
  closing: joined(async (agent, { connection, close }) => {
    await agent.reset();
    const closed = close();
    try {
      await connection.createWorld({ settings: { goal: 3 } });
    } finally {
      await connection.close();
      await closed;
    }
  }),
  programAway: relayed(async (agent, address) => {
    await errorOf(() => agent.reset());
    await joinGame(address);
  }),
  programLost: relayed((agent) => agent.reset()),
  noWorld: served(({ connection }) => connection.join("nowhere")),
  unknownSetting: served(({ connection }) => connection.createWorld({ settings: { gaol: 3 } })),
  requiredSetting: served(({ connection }) => connection.createWorld()),
  boundedSetting: served(({ connection }) => connection.createWorld({ settings: { goal: 300 } })),
  inexactSetting: served(({ connection }) => connection.createWorld({ settings: { goal: 1.5 } })),
  dtypeSetting: served(({ connection }) => connection.createWorld({ settings: { goal: "3" } })),
  manyWorlds: served(
    async ({ connection }) => {
      await connection.createWorld({ settings: { goal: 3 } });
      await connection.createWorld({ settings: { goal: 3 } });
    },
    { limits: { maxWorlds: 1 } },
  ),
  oneWorld: served(
    async ({ connection }) => {
      await connection.createWorld({ settings: { goal: 3 } });
      await connection.createWorld({ settings: { goal: 3 } });
    },
    { singleWorld: true },
  ),
  severalKinds: served(({ connection }) => connection.createWorld(), {
    worlds: [counter, patient],
  }),
  full: joined(
    async ({ world }, { url }) => {
      await using other = await connect(url);
      await other.join(world);
    },
    {},
    { limits: { maxAgentsPerWorld: 1 } },
  ),
  joinedAlready: joined(({ world }, { connection }) => connection.join(world)),
  destroyJoined: joined(({ world }, { connection }) => connection.destroyWorld(world)),
  destroyOccupied: joined(async ({ world }, { url }) => {
    await using other = await connect(url);
    await other.destroyWorld(world);
  }),
  specs: joined(async ({ world }, { connection }) => {
    await connection.leave();
    await connection.join(world, { as: { actions: {}, observations: { sum: t.int32() } } });
  }),
  notJoined: served(({ connection }) =>
    connection.send({ case: "step", value: { actions: [], requestedObservations: [] } }),
  ),
  unknownAction: joined(async (agent) => {
    await agent.reset();
    await agent.step({ subtract: 1 } as { readonly add?: number });
  }),
  boundedAction: joined(async (agent) => {
    await agent.reset();
    await agent.step({ add: 9 });
  }),
  dtypeAction: joined(async (agent, { connection }) => {
    await agent.reset();
    const actions = [{ uid: 1, tensor: tensor(1, "float64") }];
    await connection.send({ case: "step", value: { actions, requestedObservations: [] } });
  }),
  requiredAction: joined(async (agent) => {
    await agent.reset();
    await agent.step({});
  }),
  unknownUid: joined((_agent, { connection }) =>
    connection.send({ case: "step", value: { actions: [], requestedObservations: [99] } }),
  ),
  left: served(
    async ({ connection, url }) => {
      const world = await connection.createWorld({ settings: { goal: 9 } });
      const agent = await connection.join(world, { as: counter });
      await using other = await connect(url);
      const second = await other.join(world, { as: counter });
      await Promise.all([agent.reset(), second.reset()]);
      await second.step({ add: 1 });
      await agent.step({ add: 1 });
    },
    { worlds: [counter] },
  ),
  destroyed: joined(
    async (agent, { url }) => {
      await agent.reset();
      await using other = await connect(url);
      await other.destroyWorld(agent.world);
      await agent.step({ add: 1 });
    },
    {},
    { worlds: [defineWorld({ ...patient, onDestroy: "force" })] },
  ),
  failed: joined(
    async (agent) => {
      await agent.reset();
      await agent.step({ add: 1 });
    },
    { fault: "throw" },
  ),
  hung: joined(
    async (agent) => {
      await agent.reset();
      await agent.step({ add: 1 });
    },
    { fault: "hang" },
    { limits: { stepMs: 50 } },
  ),
  observation: joined((agent) => agent.reset(), { fault: "observation" }),
  message: joined(
    (_agent, { connection }) =>
      connection.createWorld({ settings: { fault: "x".repeat(2_000), goal: 3 } }),
    {},
    { limits: { maxMessageBytes: 1_000 } },
  ),
  elements: served(
    ({ connection }) =>
      connection.createWorld({ settings: { goal: pack(1, { shape: [] }), fault: ["a", "b"] } }),
    { limits: { maxElements: 1 } },
  ),
  work: served(({ connection }) => connection.createWorld({ settings: { goal: 3 } }), {
    limits: { maxMessageWork: 10 },
  }),
  dimensions: served(
    ({ connection }) => connection.createWorld({ settings: { goal: pack([[3]]) } }),
    { limits: { maxDimensions: 1 } },
  ),
  unknownHook: served(({ connection }) => connection.createWorld({ settings: { goal: 3 } }), {
    worlds: [
      defineWorld({
        ...patient,
        create: () => ({ step() {}, observe: { total: () => 0 }, ...misspelled.hook }),
      }),
    ],
  }),
  unknownOption: () =>
    errorOf(() => serve({ worlds: [defineWorld({ ...patient, ...misspelled.option })] })),
  gymnasium: joined((agent) => gymnasium(agent).step({ add: 1 })),
  realtime: joined((agent) => realtime(agent).step([{ add: 1 }])),
  minMax: () => errorOf(() => t.float32({ min: 2, max: 1 })),
  variableBounds: () => errorOf(() => t.int32([-1], { min: [0, 1] })),
  token: async () => {
    await using matchmaker = await serveMatchmaker();
    await using server = await serve({
      worlds: [patient],
      premade: [{ settings: { goal: 3 } }],
      joinToken: (token, world) => registration.seats.take(token, world),
    });
    const registration = register({
      matchmakers: matchmaker.url,
      address: server.url,
      worldTypes: ["patient"],
      maxWorlds: 1,
      maxAgents: 1,
      worlds: () => server.worlds(),
    });
    await registration.registered;
    const [worldName = ""] = server.worldNames();
    try {
      return await errorOf(() =>
        joinMatch({ address: server.url, worldName, joinToken: "forged" }),
      );
    } finally {
      await registration.close();
    }
  },
  limit: () => errorOf(() => serve({ worlds: [], limits: { maxWorlds: 0 } })),
};
