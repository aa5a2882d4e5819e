// SPDX-License-Identifier: Apache-2.0
import { EnvironmentStateType } from "@dm-env-rpc/protocol";
import type { Status } from "@dm-env-rpc/protocol/status";
import { isTensorError, type Settings } from "@dm-env-rpc/tensor-codec";
import { type SpecTable, unpackSpecs } from "@dm-env-rpc/tensor-codec/proto";
import type { ProcessResponse, Uid, UidTensor } from "@dm-env-rpc/tensor-codec/wire";
import type { OpenedStream } from "@dm-env-rpc/transport";
import { expectThat, Mismatch } from "./mismatch.ts";
import { toRequest } from "./raw-request.ts";
import {
  type AnyRequest,
  type Kind,
  type RequestOf,
  type ResponseOf,
  requests,
} from "./requests.ts";

/** State of an agent in a StepResponse. */
export type StateName = keyof typeof EnvironmentStateType | `state ${number}`;

/** One connection to the server under test, which also sends invalid requests. */
export class AgentConnection {
  /** The specs of the joined world. */
  actions: SpecTable = noSpecs;
  observations: SpecTable = noSpecs;
  /** The states of all answered steps, in order. */
  readonly states: StateName[] = [];
  /** Number of responses that arrived without a request. */
  unsolicited = 0;
  /** The end of the stream, with its error if it failed; undefined while it is open. */
  gone: { readonly error: Error | undefined } | undefined;
  readonly closed: Promise<Error | undefined>;
  readonly #stream: OpenedStream;
  readonly #timeoutMs: number;
  readonly #waiting: {
    readonly resolve: (response: ProcessResponse) => void;
    readonly reject: (error: Error) => void;
  }[] = [];
  #step: Promise<unknown> | undefined;

  constructor(stream: OpenedStream, timeoutMs: number) {
    this.#stream = stream;
    this.#timeoutMs = timeoutMs;
    this.closed = new Promise((resolve) => {
      stream.start({
        onMessage: (message) => {
          const waiting = this.#waiting.shift();
          if (waiting === undefined) {
            this.unsolicited += 1;
          } else if (message.case === "malformed") {
            waiting.reject(message.value);
          } else {
            waiting.resolve(message);
          }
        },
        onEnd: () => undefined,
        onDrain: () => undefined,
        onClose: (error) => {
          this.gone = { error };
          for (const { reject } of this.#waiting.splice(0)) {
            reject(new Mismatch("an answer", `the end of the stream: ${error?.message ?? "OK"}`));
          }
          resolve(error);
        },
      });
    });
  }

  /** True while a request is unanswered. */
  get outstanding(): boolean {
    return this.#waiting.length > 0;
  }

  /** Sends a request and returns its response of any kind. */
  send(request: AnyRequest): Promise<ProcessResponse> {
    const answer = new Promise<ProcessResponse>((resolve, reject) => {
      const timer = setTimeout(() => {
        const what = `an answer to ${request.case ?? "an empty request"}`;
        reject(new Mismatch(what, `none in ${this.#timeoutMs} ms`));
      }, this.#timeoutMs);
      this.#waiting.push({
        resolve: (response) => {
          clearTimeout(timer);
          resolve(response);
        },
        reject: (error) => {
          clearTimeout(timer);
          reject(error);
        },
      });
    });
    answer.catch(() => undefined);
    if (this.gone === undefined) {
      this.#stream.send(toRequest(request));
    } else {
      this.#waiting.pop()?.reject(new Mismatch("an open stream", "one that has ended"));
    }
    return answer;
  }

  /** Sends a request and returns the response of its kind; any other response fails the check. */
  accepted<K extends Kind>(request: RequestOf<K>): Promise<ResponseOf<K>["value"]> {
    return awaited(this.#inKind(request));
  }

  async #inKind<K extends Kind>(request: RequestOf<K>): Promise<ResponseOf<K>["value"]> {
    const response = await this.send(request as AnyRequest);
    const { case: kind } = request as { case: string };
    if (response.case === kind) {
      return response.value as ResponseOf<K>["value"];
    }
    throw new Mismatch(`a ${kind} response`, textOf(response));
  }

  /** Sends a request that must be refused, and returns the error; any other response fails the check. */
  async refused(request: AnyRequest, what: string): Promise<Status> {
    const response = await this.send(request);
    expectThat(response.case === "error", `an error for ${what}`, () => textOf(response));
    const { code, message } = response.value;
    expectThat(code !== 0, `an error with a code for ${what}`, `code 0, "${message}"`);
    return response.value;
  }

  async createWorld(settings: Settings): Promise<string> {
    return (await this.accepted<"createWorld">(requests.createWorld(settings))).worldName;
  }

  async join(world: string, settings: Settings): Promise<void> {
    this.learn((await this.accepted<"joinWorld">(requests.join(world, settings))).specs);
  }

  /** Resets, and stores the specs of the response, if any. */
  async reset(settings: Settings = {}): Promise<void> {
    const { specs } = await this.accepted<"reset">(requests.reset(settings));
    if (specs !== undefined) {
      this.learn(specs);
    }
  }

  resetWorld(world: string, settings: Settings = {}): Promise<unknown> {
    return this.accepted<"resetWorld">(requests.resetWorld(world, settings));
  }

  async leave(): Promise<void> {
    await this.accepted<"leaveWorld">(requests.leave());
  }

  /** Checks that the stream is open: a leave is answered, even if with an error. */
  async lives(): Promise<void> {
    await this.send(requests.leave());
  }

  async destroyWorld(world: string): Promise<void> {
    await this.accepted<"destroyWorld">(requests.destroyWorld(world));
  }

  /** Sends a step, by default without actions and requested observations. */
  step(
    requested: readonly Uid[] = [],
    actions: readonly UidTensor[] = [],
  ): Promise<{ readonly state: StateName; readonly observations: readonly UidTensor[] }> {
    return awaited(
      this.accepted<"step">(requests.step(requested, actions)).then((value) => {
        const state = stateName(value.state);
        this.states.push(state);
        return { state, observations: value.observations };
      }),
    );
  }

  /** Returns the outstanding step, or sends one. */
  keepStepping(requested: readonly Uid[] = []): Promise<unknown> {
    this.#step ??= awaited(
      this.step(requested).finally(() => {
        this.#step = undefined;
      }),
    );
    return this.#step;
  }

  /** Stores the specs of a response. */
  learn(specs: Parameters<typeof unpackSpecs>[0] | undefined): void {
    if (specs === undefined) {
      throw new Mismatch("specs in the response", "none");
    }
    try {
      const { actions, observations } = unpackSpecs(specs);
      this.actions = actions;
      this.observations = observations;
    } catch (error) {
      if (!isTensorError(error)) {
        throw error;
      }
      throw new Mismatch("specs that are sound", error.message);
    }
  }

  /** Half-closes the stream. */
  end(): void {
    this.#stream.end();
  }

  /** Aborts the stream, as a dying process does. */
  drop(): void {
    this.#stream.abort(new Error("dropped by the check"));
  }

  /** Closes the connection, after a leave if no request is outstanding. */
  async close(): Promise<void> {
    if (this.outstanding) {
      this.drop();
    } else {
      this.end();
    }
    const timer = setTimeout(() => this.drop(), Math.min(this.#timeoutMs, 2_000));
    await this.closed;
    clearTimeout(timer);
    await this.#stream.close();
  }
}

/** Marks a promise as handled, so that an unobserved rejection does not end the process. */
function awaited<T>(promise: Promise<T>): Promise<T> {
  promise.catch(() => undefined);
  return promise;
}

const noSpecs: SpecTable = { entries: [], byName: new Map(), byUid: new Map() };

const stateNames = new Map<number, StateName>(
  Object.entries(EnvironmentStateType).map(([name, state]) => [Number(state), name as StateName]),
);

function stateName(state: number): StateName {
  return stateNames.get(state) ?? `state ${state}`;
}

/** Describes a response in a few words. */
export function textOf(response: ProcessResponse): string {
  if (response.case === undefined) {
    return "a response without a payload";
  }
  if (response.case !== "error") {
    return `a ${response.case} response`;
  }
  return `error ${response.value.code}: ${response.value.message}`;
}
