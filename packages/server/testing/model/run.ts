// SPDX-License-Identifier: Apache-2.0

import { deepStrictEqual, ok } from "node:assert/strict";
import type { ProcessResponse } from "@dm-env-rpc/tensor-codec/wire";
import type { ClientStream } from "@dm-env-rpc/transport";
import type { ManualTime } from "@dm-env-rpc/transport/internal";
import { realtime } from "../../src/clocks/realtime.ts";
import type { Clock } from "../../src/definition/clock.ts";
import type { EnvironmentServer } from "../../src/host/environment-server.ts";
import { clocks } from "../clocks.ts";
import { oraclesOf } from "../patient.ts";
import type { Carrier } from "./carriers.ts";
import type { ClockOptions } from "./clock-models.ts";
import { toAnswer, toMessage } from "./messages.ts";
import {
  connectionCount,
  type Draft,
  type Operation,
  type Scenario,
  seatKeys,
} from "./operations.ts";
import { observationNames } from "./requests.ts";
import { type ConnectionModel, type ModelRequest, ServerModel } from "./server-model.ts";
import type { WorldModel } from "./world-model.ts";

/** Longer than every deadline of a sequence, and than any call of the author's code may take. */
const patienceMs = 2100;

/** Returns the clock for the options of its model. */
export function clockOf(options: ClockOptions): Clock {
  switch (options.kind) {
    case "lockstep":
    case "turns":
    case "wakeUp": {
      const { kind, deadlineMs, policy } = options;
      return clocks[kind].make({ deadlineMs, onMissedDeadline: policy });
    }
    case "realtime":
      return realtime({
        ticksPerSecond: 1000 / options.periodMs,
        answer: options.newest ? "newest" : "next",
        onMissedDeadline: options.policy,
      });
    case "freeRunning":
      return clocks[options.kind].make();
  }
}

/** A connection and its model. */
interface Link {
  readonly model: ConnectionModel;
  readonly stream: ClientStream;
  readonly received: ProcessResponse[];
  /** Number of compared answers. */
  compared: number;
  closed: boolean;
}

/** System under test. */
export interface Subject {
  readonly server: EnvironmentServer;
  readonly carrier: Carrier;
  readonly time: ManualTime;
  /** Calls of the author's code, world by world. */
  readonly logs: readonly (readonly string[])[];
  /**
   * True if a connection sends one request at a time. The order in which several are processed
   * would depend on the duration of author calls.
   */
  readonly oneByOne: boolean;
}

/** Runs a scenario against a server and its model, and compares all answers. */
export async function runScenario(scenario: Scenario, subject: Subject): Promise<void> {
  const run = new Run(scenario, subject);
  await run.prepare();
  for (const operation of scenario.operations) {
    await run.operate(operation);
  }
  await run.finish();
}

class Run {
  readonly #subject: Subject;
  readonly #scenario: Scenario;
  readonly #model: ServerModel;
  readonly #links: Link[] = [];
  readonly #all: Link[] = [];

  constructor(scenario: Scenario, subject: Subject) {
    this.#scenario = scenario;
    this.#subject = subject;
    this.#model = new ServerModel(scenario.policies, oraclesOf(scenario.mishap));
  }

  async prepare(): Promise<void> {
    const { settings, agents } = this.#scenario;
    for (let i = 0; i < connectionCount; i++) {
      this.#links.push(await this.#connect());
    }
    await this.#send(0, [{ kind: "create", settings }]);
    for (let i = 0; i < agents; i++) {
      await this.#send(i, [{ kind: "join", world: 0, width: 2, key: seatKeys[i] }]);
    }
  }

  async operate(operation: Operation): Promise<void> {
    switch (operation.do) {
      case "send":
        await this.#send(operation.connection, operation.requests);
        return;
      case "drop":
        await this.#drop(await this.#link(operation.connection));
        return;
      case "half-close": {
        const { model, stream } = await this.#link(operation.connection);
        this.#model.halfClose(model);
        stream.end();
        await this.#settle();
        return;
      }
      case "pass":
        await this.#pass(operation.ms);
    }
  }

  /** All agents step for a while, then leave, and nothing remains. */
  async finish(): Promise<void> {
    for (let round = 0; round < 8; round++) {
      await this.#everybodySteps();
    }
    for (const link of this.#all) {
      if (!link.model.closed) {
        await this.#drop(link);
      }
    }
    await this.#pass(patienceMs);
    const last = await this.#connect();
    this.#links.push(last);
    for (const [place] of this.#model.worlds.entries()) {
      await this.#send(this.#links.length - 1, [{ kind: "destroy", world: place }]);
    }
    await this.#drop(last);
    deepStrictEqual(this.#subject.server.worldNames(), [], "no world is left");
    deepStrictEqual(this.#subject.server.sessionCount, 0, "no session is left");
    deepStrictEqual(this.#subject.time.timers, 0, "no timer is left");
    deepStrictEqual(this.#model.timers.count, 0, "the model waits for nothing");
  }

  /**
   * Checks that if all agents of a world step, some of them are answered, at the latest after some
   * time.
   */
  async #everybodySteps(): Promise<void> {
    for (const link of this.#all) {
      const { model } = link;
      if (model.agent === undefined || model.outstanding > 0 || model.ended || model.closed) {
        continue;
      }
      await this.#sendTo(link, [
        { kind: "step", action: 1, sleep: 0, requested: observationNames },
      ]);
    }
    const waiting = this.#model.living
      .map((world) => ({ world, links: this.#linksOf(world) }))
      .filter(({ world: { stuck, agents }, links }) => {
        // An agent whose connection is closed leaves as soon as the world processes its leave.
        const present = links.length > 0 && links.length === agents.length;
        return present && !stuck && agents.every(({ step }) => step);
      });
    const before = new Map(this.#all.map(({ model }) => [model, model.answers.length]));
    await this.#pass(patienceMs);
    for (const { world, links } of waiting) {
      const moved = links.some(({ model }) => model.answers.length > (before.get(model) ?? 0));
      ok(moved, `the agents of ${world.name} all step, and none is answered`);
    }
  }

  /**
   * Returns the connections of a world's agents. A connection whose agent was removed, or was
   * resumed by another connection, still counts until it leaves.
   */
  #linksOf({ agents }: WorldModel): Link[] {
    return this.#all.filter(
      ({ model }) => model.agent?.asker === model && agents.includes(model.agent),
    );
  }

  async #connect(): Promise<Link> {
    const stream = await this.#subject.carrier.connect();
    const link: Link = {
      model: this.#model.connect(),
      stream,
      received: [],
      compared: 0,
      closed: false,
    };
    stream.start({
      onMessage(message) {
        if (message.case === "malformed") {
          throw message.value;
        }
        link.received.push(message);
      },
      onEnd() {},
      onDrain() {},
      onClose() {
        link.closed = true;
      },
    });
    this.#all.push(link);
    return link;
  }

  /** Returns the connection at an index; another connection if that one has ended. */
  async #link(place: number): Promise<Link> {
    const link = this.#links[place];
    if (link !== undefined && !link.model.closed && !link.model.ended) {
      return link;
    }
    const next = await this.#connect();
    this.#links[place] = next;
    return next;
  }

  async #send(place: number, drafts: readonly Draft[]): Promise<void> {
    await this.#sendTo(
      await this.#link(place),
      drafts.map((draft) => this.#request(draft)),
    );
  }

  async #sendTo({ model, stream }: Link, requests: readonly ModelRequest[]): Promise<void> {
    for (const request of requests) {
      if (this.#subject.oneByOne && model.outstanding > 0) {
        return;
      }
      const message = toMessage(request);
      this.#model.send(model, request);
      stream.send(message);
      if (this.#subject.oneByOne) {
        await this.#settle();
      }
    }
    await this.#settle();
  }

  #request(draft: Draft): ModelRequest {
    if (!("world" in draft)) {
      return draft;
    }
    const world = this.#model.worlds[draft.world];
    return { ...draft, world: world?.name === undefined ? undefined : world };
  }

  async #drop(link: Link): Promise<void> {
    this.#model.drop(link.model);
    link.stream.abort(new Error("dropped"));
    await this.#settle();
  }

  async #pass(ms: number): Promise<void> {
    const { time } = this.#subject;
    const end = time.now() + ms;
    while (time.now() < end) {
      const next = Math.min(end, time.due ?? end, this.#model.timers.due ?? end);
      while (this.#model.pass(next)) {}
      time.advance(next - time.now());
      await this.#settle();
    }
  }

  async #settle(): Promise<void> {
    const complete = ({ model, received, closed }: Link): boolean =>
      received.length >= model.answers.length && closed === model.closed;
    await this.#subject.carrier.settle(() => this.#all.every(complete));
    for (const link of this.#all) {
      this.#compare(link);
    }
    // Worlds are independent: calls of two worlds have no order.
    const { logs } = this.#subject;
    deepStrictEqual(
      byText(logs.map((log) => log.map(inOrder))),
      byText(this.#model.logs),
      "what the worlds were told",
    );
  }

  #compare(link: Link): void {
    const { model, received } = link;
    for (; link.compared < received.length; link.compared += 1) {
      const response = received[link.compared] as ProcessResponse;
      const label = `connection ${this.#all.indexOf(link)}, answer ${link.compared}`;
      deepStrictEqual(toAnswer(response), model.answers[link.compared], label);
      const world = model.created.get(link.compared);
      if (world !== undefined && response.case === "createWorld") {
        world.name = response.value.worldName;
      }
    }
    const label = `connection ${this.#all.indexOf(link)}`;
    deepStrictEqual(received.length, model.answers.length, `${label}: answers`);
    deepStrictEqual(link.closed, model.closed, `${label}: closed`);
  }
}

/** Returns the logs that are not empty, sorted by their content. */
function byText(logs: readonly (readonly string[])[]): string[][] {
  return logs
    .filter(({ length }) => length > 0)
    .map((log) => [...log])
    .sort((a, b) => (a.join("\n") < b.join("\n") ? -1 : 1));
}

/** Returns an event of the world with its actions in the order of the agents. */
function inOrder(event: string): string {
  if (!event.startsWith("tick ")) {
    return event;
  }
  return `tick ${event.slice(5).split(" ").sort().join(" ")}`;
}
