// SPDX-License-Identifier: Apache-2.0
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { createServer as createTlsServer } from "node:https";
import { text } from "node:stream/consumers";

/** A GameServer of the stand-in. */
export interface GameServer {
  readonly labels: Record<string, string>;
  state: "Scheduled" | "Ready" | "Allocated" | "Shutdown";
}

/** A check of a JSON value that returns the path and reason of the first violation. */
type Check = (value: unknown, path: string) => string | undefined;

const isText: Check = (value, path) =>
  typeof value === "string" ? undefined : `${path}: expected a string`;
const oneOf =
  (...known: readonly string[]): Check =>
  (value, path) =>
    known.includes(String(value)) ? undefined : `${path}: expected one of ${known.join(", ")}`;
const isLabel: Check = (value, path) =>
  typeof value === "string" && /^([A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?)?$/.test(value)
    ? undefined
    : `${path}: expected the value of a label`;

function entriesOf(value: unknown): [string, unknown][] | undefined {
  return typeof value === "object" && value !== null ? Object.entries(value) : undefined;
}

/** Checks an object's fields; a field that is not listed is a violation. */
const record =
  (fields: Readonly<Record<string, Check>>): Check =>
  (value, path) => {
    const entries = entriesOf(value);
    if (entries === undefined) {
      return `${path}: expected an object`;
    }
    for (const [name, field] of entries) {
      const violation = fields[name]?.(field, `${path}.${name}`);
      if (violation !== undefined || !Object.hasOwn(fields, name)) {
        return violation ?? `${path}.${name}: unknown field`;
      }
    }
    return undefined;
  };
const mapOf =
  (check: Check): Check =>
  (value, path) => {
    const entries = entriesOf(value) ?? [[path, undefined]];
    return entries.map(([key, each]) => check(each, `${path}["${key}"]`)).find(Boolean);
  };
const listOf =
  (check: Check): Check =>
  (value, path) =>
    Array.isArray(value)
      ? value.map((each, index) => check(each, `${path}[${index}]`)).find(Boolean)
      : `${path}: expected a list`;

/** The fields of GameServerAllocation, `allocation.agones.dev/v1`, that need no feature gate. */
const checkAllocation = record({
  apiVersion: oneOf("allocation.agones.dev/v1"),
  kind: oneOf("GameServerAllocation"),
  metadata: record({ name: isText, generateName: isText, labels: mapOf(isLabel) }),
  spec: record({
    selectors: listOf(
      record({
        matchLabels: mapOf(isLabel),
        matchExpressions: listOf(record({ key: isText, operator: isText, values: listOf(isText) })),
        gameServerState: oneOf("Ready", "Allocated"),
      }),
    ),
    scheduling: oneOf("Packed", "Distributed"),
    metadata: record({ labels: mapOf(isLabel), annotations: mapOf(isText) }),
  }),
});

interface Allocation {
  readonly spec: {
    readonly selectors?: readonly {
      readonly matchLabels?: Readonly<Record<string, string>>;
      readonly gameServerState?: string;
    }[];
    readonly metadata?: { readonly labels?: Readonly<Record<string, string>> };
  };
}

/** Options of `AgonesApi.start`. */
export interface AgonesApiOptions {
  readonly namespace: string;
  /** Bearer token of the service account that may create allocations. */
  readonly token: string;
  readonly tls?: { readonly cert: string; readonly key: string } | undefined;
}

/**
 * A stand-in for the Kubernetes API of a cluster with Agones, because tests have no cluster. It answers
 * creates of GameServerAllocation as Agones 1.58 does (pkg/apis/allocation/v1 and
 * pkg/gameserverallocations of agones-dev/agones): it refuses what the schema does not have, takes the
 * selectors in order, and answers 201 with the state Allocated, UnAllocated or Contention.
 */
export class AgonesApi implements AsyncDisposable {
  readonly gameServers: Map<string, GameServer> = new Map();
  /** Outcomes of the next requests: a state or HTTP status, or an allocation whose answer is lost. */
  readonly outcomes: ("Contention" | "lost" | "hangs" | number)[] = [];
  /** Number of requests. */
  requests = 0;
  /** Called after each request. */
  onRequest: () => void = () => {};
  readonly url: string;
  readonly #options: AgonesApiOptions;
  readonly #close: () => void;

  private constructor(url: string, options: AgonesApiOptions, close: () => void) {
    this.url = url;
    this.#options = options;
    this.#close = close;
  }

  static async start(options: AgonesApiOptions): Promise<AgonesApi> {
    const listener = (request: IncomingMessage, response: ServerResponse): void => {
      void api.#answer(request, response);
    };
    const { tls } = options;
    const server = tls === undefined ? createServer(listener) : createTlsServer(tls, listener);
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const address = server.address();
    const port = typeof address === "object" && address !== null ? address.port : 0;
    const api = new AgonesApi(
      `http${tls === undefined ? "" : "s"}://127.0.0.1:${port}`,
      options,
      () => {
        server.closeAllConnections();
        server.close();
      },
    );
    return api;
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    this.requests += 1;
    const { namespace, token } = this.#options;
    const path = `/apis/allocation.agones.dev/v1/namespaces/${namespace}/gameserverallocations`;
    const body = await text(request);
    const answer = (code: number, content: object): void => {
      response.writeHead(code, { "content-type": "application/json" });
      response.end(JSON.stringify(content));
    };
    const refuse = (code: number, message: string): void =>
      answer(code, { kind: "Status", apiVersion: "v1", status: "Failure", message, code });
    const outcome = this.outcomes.shift();
    this.onRequest();
    if (outcome === "hangs") {
      return;
    }
    if (request.headers.authorization !== `Bearer ${token}`) {
      return refuse(401, "Unauthorized");
    }
    if (request.method !== "POST" || request.url !== path) {
      return refuse(403, `User cannot create resource at ${request.url}`);
    }
    if (typeof outcome === "number") {
      return refuse(outcome, "the request failed");
    }
    const allocation: Allocation = JSON.parse(body);
    const violation = checkAllocation(allocation, "GameServerAllocation");
    if (violation !== undefined) {
      return refuse(422, `GameServerAllocation is invalid: ${violation}`);
    }
    if (outcome === "Contention") {
      return answer(201, { ...allocation, status: { state: outcome, gameServerName: "" } });
    }
    const name = this.#allocate(allocation);
    if (outcome === "lost") {
      response.destroy();
      return;
    }
    const status =
      name === undefined
        ? { state: "UnAllocated", gameServerName: "", source: "local" }
        : { state: "Allocated", gameServerName: name, source: "local" };
    answer(201, { ...allocation, status });
  }

  #allocate({ spec: { selectors = [{}], metadata } }: Allocation): string | undefined {
    for (const { matchLabels = {}, gameServerState = "Ready" } of selectors) {
      for (const [name, gameServer] of this.gameServers) {
        const { state, labels } = gameServer;
        const wanted = Object.entries(matchLabels);
        if (state === gameServerState && wanted.every(([key, value]) => labels[key] === value)) {
          gameServer.state = "Allocated";
          Object.assign(labels, metadata?.labels);
          return name;
        }
      }
    }
    return undefined;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#close();
  }
}
