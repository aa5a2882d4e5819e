// SPDX-License-Identifier: Apache-2.0
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type Client, createClient, type Interceptor } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { AdminService } from "@dm-env-rpc/protocol/matchmaker";
import { freePort, RedisServer } from "@dm-env-rpc/tests-processes";
import { Actor } from "./actor.ts";
import { descriptorSet } from "./descriptors.ts";
import type { AgentEvent, Flood, WorldEvent } from "./events.ts";
import type { Language } from "./languages.ts";
import type { Ledger } from "./ledger.ts";

/** Agents of a match. */
const groupSize = 4;
const matchmakerCount = 3;
const serverCount = 4;
const matchmakerMain = fileURLToPath(import.meta.resolve("@dm-env-rpc/matchmaker-server/main"));
const programOf = (name: string): string => fileURLToPath(new URL(`./${name}.js`, import.meta.url));

const profiles = [
  {
    name: "four",
    pools: [{ name: "all" }],
    matchFunction: { byCount: { count: groupSize } },
    worldType: "counted",
    worldSettings: { seats: { int32s: { array: [groupSize] } } },
    // If an agent is killed before it joins, the others wait for its replacement.
    backfill: true,
    seatTimeout: "4s",
    placement: "PLACEMENT_SPREAD_WORLDS",
  },
  {
    name: "nobody",
    pools: [{ name: "none", tagPresentFilters: [{ tag: "never" }] }],
    matchFunction: { byCount: { count: 2 } },
    worldType: "counted",
  },
];

/** A line of a matchmaker's log. */
interface LogLine {
  readonly msg: string;
  readonly err?: { readonly message?: string; readonly stack?: string };
}

/** A matchmaker of the soak. */
interface Matchmaker {
  readonly port: number;
  actor: Actor<LogLine>;
}

/** A process of agents. */
export interface Crowd {
  readonly name: string;
  readonly actor: Actor<AgentEvent>;
  /** Returns true for its agents. */
  has(agent: string): boolean;
}

/** A server of the soak. */
interface WorldServer {
  readonly url: string;
  readonly actor: Actor<WorldEvent>;
}

/** Three matchmakers on one Redis, four servers, and agents, as processes. */
export class Fleet implements AsyncDisposable {
  readonly redis: RedisServer;
  readonly crowds: Crowd[] = [];
  readonly #ledger: Ledger;
  readonly #folder: string;
  readonly #cleanUp: AsyncDisposableStack;
  readonly #matchmakers: Matchmaker[] = [];
  readonly #servers: WorldServer[] = [];
  /** The matchmaker that last reported that it leads. */
  #leader: Matchmaker | undefined;

  private constructor(
    redis: RedisServer,
    ledger: Ledger,
    folder: string,
    cleanUp: AsyncDisposableStack,
  ) {
    this.redis = redis;
    this.#ledger = ledger;
    this.#folder = folder;
    this.#cleanUp = cleanUp;
  }

  /** Starts Redis, the matchmakers and the servers. */
  static async start(ledger: Ledger): Promise<Fleet> {
    await using cleanUp = new AsyncDisposableStack();
    const folder = await mkdtemp(join(tmpdir(), "soak-matchmaking-"));
    cleanUp.defer(() => rm(folder, { recursive: true }));
    const redis = cleanUp.use(await RedisServer.start({ sync: "everysec" }));
    await writeFile(join(folder, "profiles.json"), JSON.stringify(profiles));
    await writeFile(join(folder, "descriptors.binpb"), descriptorSet());
    await writeFile(join(folder, "operator"), tokenOf("operator"));
    const parties = ["fleet", "hostile"].map((party) => `${party} ${serverTokenOf(party)}\n`);
    await writeFile(join(folder, "servers"), parties.join(""));
    const names = ["typescript", "python", "go", "hostile"];
    const agents = names.map((name) => `${name} ${tokenOf(name)}\n`);
    await writeFile(join(folder, "agents"), agents.join(""));
    const fleet = new Fleet(redis, ledger, folder, cleanUp.move());
    try {
      for (let started = 0; started < matchmakerCount; started++) {
        const port = await freePort();
        const matchmaker = { port, actor: fleet.#matchmaker(port) };
        fleet.#matchmakers.push(matchmaker);
        await matchmaker.actor.url;
      }
      await Promise.all(Array.from({ length: serverCount }, () => fleet.addServer()));
    } catch (error) {
      await fleet[Symbol.asyncDispose]();
      throw error;
    }
    return fleet;
  }

  get addresses(): readonly string[] {
    return this.#matchmakers.map(({ port }) => `http://127.0.0.1:${port}`);
  }

  get leader(): Matchmaker {
    if (this.#leader === undefined) {
      throw new Error("no matchmaker leads");
    }
    return this.#leader;
  }

  /** Starts a matchmaker that was killed again, at its port. */
  async restart(matchmaker: Matchmaker): Promise<void> {
    matchmaker.actor = this.#matchmaker(matchmaker.port);
    await matchmaker.actor.url;
  }

  /** Starts a server, and resolves once it is registered. */
  async addServer(): Promise<void> {
    const args = [programOf("world-server"), serverTokenOf("fleet"), ...this.addresses];
    const actor = this.#use(
      new Actor<WorldEvent>(process.execPath, args, (event) => this.#ledger.takeWorld(event)),
    );
    this.#servers.push({ url: await actor.url, actor });
  }

  /** Removes the server with the most worlds from the list of those that can fail, and returns it. */
  async takeBusiestServer(): Promise<WorldServer> {
    const { servers } = await this.admin().listServers({});
    servers.sort((a, b) => b.worlds.length - a.worlds.length);
    for (const { address } of servers) {
      const at = this.#servers.findIndex(({ url }) => url === address);
      const [found] = at < 0 ? [] : this.#servers.splice(at, 1);
      if (found !== undefined) {
        return found;
      }
    }
    throw new Error("no server is registered");
  }

  /** Puts a server that was suspended back into the list of those that can fail. */
  returnServer(server: WorldServer): void {
    this.#servers.push(server);
  }

  /** Starts a process of agents. */
  addCrowd(name: string, { language, program, args }: Language, agents: number): Crowd {
    const flags = [
      ...["--agents", String(agents), "--name", name, "--token", tokenOf(language)],
      ...["--descriptors", join(this.#folder, "descriptors.binpb")],
      ...this.addresses.flatMap((address) => ["--matchmaker", address]),
    ];
    const actor = this.#use(
      new Actor<AgentEvent>(program, [...args, ...flags], (event) => this.#ledger.takeAgent(event)),
    );
    const crowd = { name, actor, has: (agent: string) => agent.startsWith(`${name}-`) };
    this.crowds.push(crowd);
    return crowd;
  }

  /** Kills a process of agents. */
  async killCrowd(crowd: Crowd): Promise<void> {
    await crowd.actor.kill();
    this.crowds.splice(this.crowds.indexOf(crowd), 1);
    this.#ledger.forget(crowd.has);
  }

  /** Floods the matchmakers for a while. */
  async flood(forMs: number): Promise<Flood> {
    let counts: Flood = { calls: 0, created: 0, refused: 0, failed: 0 };
    const args = [
      ...[programOf("hostile"), "--agent-token", tokenOf("hostile")],
      ...["--server-token", serverTokenOf("hostile")],
      ...this.addresses.flatMap((address) => ["--matchmaker", address]),
      ...this.#servers.flatMap(({ url }) => ["--server", url]),
    ];
    await using actor = new Actor<Flood>(process.execPath, args, (flood) => {
      counts = flood;
    });
    await new Promise((resolve) => setTimeout(resolve, forMs));
    actor.finish();
    await actor.ended;
    if (counts.created === 0 || counts.refused === 0) {
      this.#ledger.violations.push(
        `the hostile caller: expected tickets and refusals, received ${JSON.stringify(counts)}`,
      );
    }
    return counts;
  }

  /** Returns a client of a matchmaker's admin service. */
  admin(): Client<typeof AdminService> {
    const bearer: Interceptor = (next) => (request) => {
      request.header.set("authorization", `Bearer ${tokenOf("operator")}`);
      return next(request);
    };
    const [baseUrl = ""] = this.addresses;
    return createClient(AdminService, createGrpcTransport({ baseUrl, interceptors: [bearer] }));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#cleanUp.disposeAsync();
  }

  #use<Event extends object>(actor: Actor<Event>): Actor<Event> {
    this.#cleanUp.use(actor);
    return actor;
  }

  #matchmaker(port: number): Actor<LogLine> {
    const file = (name: string): string => join(this.#folder, name);
    const args = [
      ...[matchmakerMain, "--port", String(port), "--redis", this.redis.url],
      ...["--profiles", file("profiles.json"), "--operator-token", file("operator")],
      ...["--server-tokens", file("servers"), "--agent-tokens", file("agents")],
    ];
    return this.#use(
      new Actor<LogLine>(process.execPath, args, ({ msg, err }) => {
        if (msg === "leading") {
          this.#leader = this.#matchmakers.find((each) => each.port === port) ?? this.#leader;
        } else if (msg === "step-failed" || msg === "bad-proposal") {
          this.#ledger.violations.push(`a matchmaker logged ${msg}: ${err?.stack ?? err?.message}`);
        }
      }),
    );
  }
}

function tokenOf(name: string): string {
  return `soak-${name}-token`;
}

/** Returns the token of a party that runs servers. */
function serverTokenOf(party: string): string {
  return tokenOf(`servers-of-${party}`);
}
