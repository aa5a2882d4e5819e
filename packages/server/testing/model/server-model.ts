// SPDX-License-Identifier: Apache-2.0

import type { Oracle } from "../patient.ts";
import type { AgentModel, Asker } from "./agent-model.ts";
import type { Policies } from "./policies.ts";
import { type Answer, codes, type Request } from "./requests.ts";
import { Timers } from "./timers.ts";
import { type Surroundings, WorldModel } from "./world-model.ts";

/** A request to the model of a server. */
export type ModelRequest = Request<WorldModel>;

/**
 * One connection. Its requests are processed in order, each after the previous one was answered.
 */
export class ConnectionModel implements Asker {
  readonly answers: Answer[] = [];
  /** Requests that arrived and are not processed yet. */
  readonly queue: ModelRequest[] = [];
  busy = false;
  /** True while requests are being processed. */
  taking = false;
  /** True if the peer has ended its side. */
  ended = false;
  /** True if the stream is gone. */
  closed = false;
  world: WorldModel | undefined;
  agent: AgentModel | undefined;
  /** Reason why the agent is no longer in its world. */
  gone: number | undefined;
  /** The worlds that the connection created, by index of the answer. */
  readonly created = new Map<number, WorldModel>();
  readonly #next: (connection: ConnectionModel) => void;

  /** @param next Processes the next request, if any. */
  constructor(next: (connection: ConnectionModel) => void) {
    this.#next = next;
  }

  get outstanding(): number {
    return this.queue.length + (this.busy ? 1 : 0);
  }

  answer(answer: Answer): void {
    if (this.closed) {
      return;
    }
    this.busy = false;
    this.answers.push(answer);
    this.#next(this);
  }

  fail(code: number): void {
    this.answer({ kind: "error", code });
  }
}

/** A model of the promised behaviours of a server with several connections. */
export class ServerModel {
  readonly timers: Timers = new Timers();
  readonly worlds: WorldModel[] = [];
  /** Calls of each world. */
  readonly logs: string[][] = [];
  readonly #policies: Policies;
  readonly #surroundings: Surroundings;

  constructor(policies: Policies, openOracle: () => Oracle) {
    this.#policies = policies;
    this.#surroundings = {
      alarm: this.timers,
      openOracle,
      openLog: () => {
        const log: string[] = [];
        this.logs.push(log);
        return (event) => void log.push(event);
      },
      onDismissed(agent, code) {
        const { asker } = agent;
        if (asker instanceof ConnectionModel && asker.agent === agent) {
          asker.gone = code;
        }
      },
    };
  }

  get living(): readonly WorldModel[] {
    return this.worlds.filter(({ gone }) => gone === undefined);
  }

  connect(): ConnectionModel {
    return new ConnectionModel((connection) => this.#next(connection));
  }

  send(connection: ConnectionModel, request: ModelRequest): void {
    connection.queue.push(request);
    if (request.kind === "leave") {
      this.#letOut(connection);
    }
    this.#next(connection);
  }

  /** Lets a leave overtake a request that waits for other agents. */
  #letOut(connection: ConnectionModel): void {
    const { agent, world, busy, queue, gone } = connection;
    if (agent === undefined || world === undefined || gone !== undefined) {
      return;
    }
    if (!busy || !queue.some(({ kind }) => kind === "leave")) {
      return;
    }
    world.turn(() => {
      if (agent.asker === connection) {
        world.letOut(agent, () => {
          connection.agent = undefined;
          connection.world = undefined;
        });
      }
    });
  }

  halfClose(connection: ConnectionModel): void {
    connection.ended = true;
    this.#next(connection);
  }

  drop(connection: ConnectionModel): void {
    if (connection.closed) {
      return;
    }
    connection.closed = true;
    connection.queue.length = 0;
    this.#leave(connection, () => {}, "drop");
  }

  /** Lets time pass until the next event; returns true if there was one. */
  pass(end: number): boolean {
    return this.timers.next(end);
  }

  /**
   * Processes the next requests. Requests that an answer makes possible are processed once the
   * world is idle.
   */
  #next(connection: ConnectionModel): void {
    if (connection.taking) {
      return;
    }
    connection.taking = true;
    for (;;) {
      if (connection.busy || connection.closed) {
        break;
      }
      const request = connection.queue.shift();
      if (request === undefined) {
        break;
      }
      connection.busy = true;
      this.#take(connection, request);
      this.#letOut(connection);
    }
    connection.taking = false;
    if (connection.busy || connection.closed || !connection.ended) {
      return;
    }
    connection.busy = true;
    this.#leave(connection, () => {
      connection.closed = true;
    });
  }

  /** Removes the agent, if any; `done` is called before anything that follows. */
  #leave(
    connection: ConnectionModel,
    done: () => void = () => {},
    how: "leave" | "drop" = "leave",
  ): void {
    const { agent, world, gone } = connection;
    connection.agent = undefined;
    connection.world = undefined;
    connection.gone = undefined;
    if (agent === undefined || world === undefined || gone !== undefined) {
      done();
    } else {
      let left = false;
      const leave = (): void => {
        if (!left) {
          done();
        }
        left = true;
      };
      const depart = (): void => {
        if (agent.asker === connection) {
          world[how](agent, leave);
        } else {
          leave(); // Another connection has taken the agent's seat meanwhile.
        }
      };
      world.turn(depart, leave);
    }
  }

  #take(connection: ConnectionModel, request: ModelRequest): void {
    const { world, agent, gone } = connection;
    const joined = agent !== undefined && gone === undefined;
    switch (request.kind) {
      case "create":
        this.#create(connection, request);
        return;
      case "join":
        this.#join(connection, request, joined);
        return;
      case "step":
      case "reset":
        if (agent === undefined || world === undefined) {
          connection.fail(codes.failedPrecondition);
        } else if (gone !== undefined) {
          connection.fail(gone);
        } else if (request.kind === "step") {
          world.turn(() => this.#play(world, agent, connection, request));
        } else {
          world.turn(() => this.#play(world, agent, connection, request), once(connection));
        }
        return;
      case "resetWorld": {
        const target = request.world;
        if (target === undefined || target.gone !== undefined) {
          connection.fail(codes.notFound);
        } else {
          const reset = (): void => {
            const isCaller = joined && target === world && agent.asker === connection;
            target.resetWorld(connection, isCaller ? agent : undefined, request.start);
          };
          target.turn(reset, once(connection));
        }
        return;
      }
      case "leave":
        this.#leave(connection, () => connection.answer({ kind: "leaveWorld" }));
        return;
      case "destroy": {
        const target = request.world;
        if (target === undefined || target.gone !== undefined) {
          connection.fail(codes.notFound);
        } else if (joined && target === world) {
          connection.fail(codes.failedPrecondition);
        } else {
          target.turn(() => target.destroy(connection), once(connection));
        }
        return;
      }
      case "nothing":
        connection.fail(codes.invalidArgument);
    }
  }

  #play(
    world: WorldModel,
    agent: AgentModel,
    connection: ConnectionModel,
    request: Extract<ModelRequest, { kind: "step" | "reset" }>,
  ): void {
    const gone = connection.gone ?? world.gone;
    if (gone !== undefined) {
      connection.fail(gone);
    } else if (request.kind === "step") {
      world.step(agent, request);
    } else {
      world.reset(agent, request.width);
    }
  }

  #create(
    connection: ConnectionModel,
    { settings }: Extract<ModelRequest, { kind: "create" }>,
  ): void {
    if (settings === "bad") {
      connection.fail(codes.invalidArgument);
      return;
    }
    const world = new WorldModel(this.#policies, settings, this.#surroundings);
    const made: Asker = {
      answer: (answer) => {
        if (answer.kind === "createWorld") {
          this.worlds.push(world);
          connection.created.set(connection.answers.length, world);
        }
        connection.answer(answer);
      },
    };
    world.create(made);
  }

  #join(
    connection: ConnectionModel,
    { world, ...settings }: Extract<ModelRequest, { kind: "join" }>,
    joined: boolean,
  ): void {
    if (joined) {
      connection.fail(codes.failedPrecondition);
      return;
    }
    if (world === undefined || world.gone !== undefined) {
      connection.fail(codes.notFound);
      return;
    }
    const joinedAs = (agent: AgentModel): void => {
      connection.agent = agent;
      connection.world = world;
      connection.gone = undefined;
    };
    world.turn(() => world.join(connection, settings, joinedAs), once(connection));
  }
}

/** Answers a request with an error, if it has not been answered by then. */
function once(connection: ConnectionModel): (code: number) => void {
  const answered = connection.answers.length;
  return (code) => {
    if (connection.answers.length === answered) {
      connection.fail(code);
    }
  };
}
