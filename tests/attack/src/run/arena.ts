// SPDX-License-Identifier: Apache-2.0
import { setTimeout as sleep } from "node:timers/promises";
import type { Room } from "../attacks/index.ts";
import type { Played, Step } from "../children/agents.ts";
import { clockMs } from "../children/clock.ts";
import { Attacker } from "./attacker.ts";
import type { Row } from "./bars.ts";
import { Bystanders } from "./bystanders.ts";
import { ownGapMs, ownStepMs, quantile, type Span } from "./measure.ts";
import { ProbedServer } from "./probed-server.ts";

/** Durations of a run. */
export interface Pace {
  /** Time that the neighbour plays before the attack. */
  readonly beforeMs: number;
  readonly attackMs: Readonly<Record<Room, number>>;
  /** Time that the neighbour plays after the attack. */
  readonly afterMs: number;
  /** True to reuse a server that withstood the last attack. */
  readonly reusesServers: boolean;
}

/** Names of the agents: on the attacked server, and on the other one. */
const neighbour = "neighbour";
const controlName = "control";

/** Minimum duration of a step of the control agent from which the machine counts as having stood still. */
const standstillMs = 10;

/** Maximum duration of a step of the neighbour that counts as fast. */
const fastMs = 100;

/** Maximum time to wait for a recovery. */
const recoveryMs = 15_000;

/** Maximum duration of an attack whose message the server does not answer. */
const untilAnsweredMs = 15_000;

/** Memory in use above which a server is not reused. */
const reusableBytes = 250e6;

/**
 * Prefix of the attacks whose dead connections node:http2 forgets. Their descriptors are counted at the end of the
 * run.
 */
const ghosts = "ghosts";

/** Time after an attack of ghosts in which their descriptors must be closed. The listener needs 4 s on a quiet machine. */
const ghostMs = 20_000;

/** A server that has connections of ghosts. */
interface Haunted {
  readonly attack: string;
  readonly server: ProbedServer;
  readonly descriptors: number;
  readonly endedAt: number;
}

/** Number of descriptors of ghosts that are still open, and the time since their attack. */
export interface Haunting {
  readonly attack: string;
  readonly descriptors: number;
  readonly ms: number;
}

/** An attacked server and its neighbour. */
interface Victim {
  readonly server: ProbedServer;
  readonly beforeP99Ms: number;
  readonly descriptors: number;
}

/** A server that is attacked, a server that is not, and an agent on each. */
export class Arena implements AsyncDisposable {
  readonly #pace: Pace;
  readonly #bystanders: Bystanders;
  readonly #control: ProbedServer;
  #victim: Victim | undefined;
  #prepared: { readonly attack: string; readonly attacker: Attacker } | undefined;
  readonly #haunted: Haunted[] = [];
  #standstills: Span[] = [];
  /** The control agent's steps since the attack began. */
  #controlSteps: Step[] = [];

  private constructor(pace: Pace, bystanders: Bystanders, other: ProbedServer) {
    this.#pace = pace;
    this.#bystanders = bystanders;
    this.#control = other;
  }

  /** Starts the server that is not attacked, and the agents' process. */
  static async open(pace: Pace): Promise<Arena> {
    const bystanders = new Bystanders();
    const other = await ProbedServer.start();
    await bystanders.ask("join", { name: controlName, url: other.url });
    return new Arena(pace, bystanders, other);
  }

  /**
   * Runs an attack once.
   *
   * @param next The next attack, whose bytes are prepared during this one.
   */
  async run(room: Room, attack: string, next?: string): Promise<Row> {
    await using attacker = await this.#takeAttacker(attack);
    const [victim] = await Promise.all([this.#prepareVictim(), attacker.ready()]);
    if (next !== undefined) {
      this.#prepared = { attack: next, attacker: new Attacker(next) };
    }
    const { server } = victim;
    await this.#collect();
    this.#controlSteps = [];
    server.forgetPeak();
    const { beganAt, isAnswered, seen } = await attacker.attack({
      port: server.port,
      ms: this.#pace.attackMs[room],
      ...(room === "messages" ? { untilAnsweredMs } : {}),
    });
    const endedAt = clockMs();
    const failures: string[] = [];
    if (room === "messages" && !isAnswered) {
      failures.push("the server has not answered a message");
    }
    const steps: Step[] = [];
    const areGhosts = attack.startsWith(ghosts);
    const recoveredMs = await this.#recovery(victim, areGhosts, endedAt, steps, failures);
    const gaps = server.gaps.filter(({ to }) => to > beganAt);
    const own = steps.map((step) => ownStepMs(step, this.#standstills, gaps));
    const control = this.#controlSteps.map((step) => ownStepMs(step, this.#standstills, []));
    const isDead = server.death !== undefined;
    const row: Row = {
      room,
      attack,
      stallMs: Math.max(0, ...gaps.map(ownGapMs)),
      residentBytes: isDead ? Number.NaN : server.memory().peak,
      beforeP99Ms: victim.beforeP99Ms,
      controlP99Ms: quantile(control, 0.99),
      p99Ms: quantile(own, 0.99),
      worstMs: Math.max(0, ...own),
      recoveredMs,
      descriptors: isDead ? 0 : Math.max(0, server.descriptors() - victim.descriptors),
      failures,
      seen,
    };
    if (areGhosts && failures.length === 0) {
      const { descriptors } = victim;
      this.#haunted.push({ attack, server, descriptors, endedAt });
      this.#victim = undefined;
      await this.#bystanders.ask("leave", { name: neighbour });
      return row;
    }
    const isReusable =
      this.#pace.reusesServers &&
      failures.length === 0 &&
      recoveredMs !== undefined &&
      server.memory().now < reusableBytes;
    if (!isReusable) {
      await this.#endVictim();
    }
    return row;
  }

  /** Waits until the descriptors of ghosts are closed. Returns how long it took, and how many are still open. */
  async exorcise(): Promise<readonly Haunting[]> {
    const done: Haunting[] = [];
    for (const { attack, server, descriptors, endedAt } of this.#haunted) {
      const left = (): number => server.descriptors() - descriptors;
      while (left() > 0 && clockMs() - endedAt < ghostMs) {
        await sleep(100);
      }
      done.push({ attack, descriptors: Math.max(0, left()), ms: clockMs() - endedAt });
    }
    return done;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { server } of this.#haunted) {
      await server[Symbol.asyncDispose]();
    }
    await this.#prepared?.attacker[Symbol.asyncDispose]();
    await this.#bystanders[Symbol.asyncDispose]();
    await this.#victim?.server[Symbol.asyncDispose]();
    await this.#control[Symbol.asyncDispose]();
  }

  async #takeAttacker(attack: string): Promise<Attacker> {
    const prepared = this.#prepared;
    this.#prepared = undefined;
    if (prepared?.attack === attack) {
      return prepared.attacker;
    }
    await prepared?.attacker[Symbol.asyncDispose]();
    return new Attacker(attack);
  }

  /** Returns a server on which a neighbour plays. */
  async #prepareVictim(): Promise<Victim> {
    if (this.#victim !== undefined) {
      return this.#victim;
    }
    const server = await ProbedServer.start();
    await this.#bystanders.ask("join", { name: neighbour, url: server.url });
    await sleep(this.#pace.beforeMs / 2); // The first steps are slow, because the code is cold.
    await this.#collect();
    await sleep(this.#pace.beforeMs);
    const from = clockMs() - this.#pace.beforeMs;
    const { steps } = await this.#collect();
    const gaps = server.gaps.filter(({ to }) => to > from);
    const own = steps.map((step) => ownStepMs(step, this.#standstills, gaps));
    this.#victim = {
      server,
      beforeP99Ms: quantile(own, 0.99),
      descriptors: server.descriptors(),
    };
    return this.#victim;
  }

  async #endVictim(): Promise<void> {
    const victim = this.#victim;
    this.#victim = undefined;
    await victim?.server[Symbol.asyncDispose]();
    await this.#bystanders.ask("leave", { name: neighbour });
  }

  /** Returns the steps of the neighbour since the last call, and records when the machine stood still. */
  async #collect(): Promise<Played> {
    const other = await this.#bystanders.ask("steps", { name: controlName });
    if (other.failure !== undefined) {
      throw new Error(`the agent on the server that is not attacked failed: ${other.failure}`);
    }
    this.#controlSteps.push(...other.steps);
    const pending = other.pending === undefined ? [] : [other.pending];
    for (const [at, ms] of [...other.steps, ...pending]) {
      if (ms >= standstillMs) {
        this.#standstills.push({ from: at, to: at + ms });
      }
    }
    this.#standstills = [...this.#standstills, ...this.#control.gaps].slice(-10_000);
    return await this.#bystanders.ask("steps", { name: neighbour });
  }

  /** Waits until a visitor has played, the neighbour's steps are fast and the attack's descriptors are closed. */
  async #recovery(
    { server, descriptors }: Victim,
    areGhosts: boolean,
    endedAt: number,
    steps: Step[],
    failures: string[],
  ): Promise<number | undefined> {
    const visiting = this.#bystanders.ask("visit", { name: neighbour });
    const deadline = sleep(recoveryMs, undefined, { ref: false });
    const visit = await Promise.race([visiting, deadline]);
    let recoveredAt = visit?.endedAt ?? endedAt;
    if (visit === undefined || visit.failure !== undefined) {
      failures.push(`a visitor cannot play: ${visit?.failure ?? "no response"}`);
    }
    await sleep(this.#pace.afterMs);
    for (;;) {
      const played = await this.#collect();
      steps.push(...played.steps);
      const all = [...steps, ...(played.pending === undefined ? [] : [played.pending])];
      for (const [at, ms] of all) {
        if (ownStepMs([at, ms], this.#standstills, server.gaps.slice(-1_000)) > fastMs) {
          recoveredAt = Math.max(recoveredAt, at + ms);
        }
      }
      if (played.failure !== undefined) {
        failures.push(`the neighbour has failed: ${played.failure}`);
      }
      if (server.death !== undefined) {
        failures.push(`the server has died with ${server.death}`);
      }
      if (failures.length > 0) {
        return undefined;
      }
      const isClosed = areGhosts || server.descriptors() <= descriptors;
      const isFast = played.pending === undefined || played.pending[1] <= fastMs;
      if (isClosed && isFast) {
        return Math.max(0, recoveredAt - endedAt);
      }
      if (clockMs() - endedAt > recoveryMs) {
        if (played.pending !== undefined) {
          steps.push(played.pending);
        }
        return undefined;
      }
      recoveredAt = clockMs();
      await sleep(20);
    }
  }
}
