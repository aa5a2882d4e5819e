// SPDX-License-Identifier: Apache-2.0
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import { connect } from "@dm-env-rpc/client";
import {
  Environment,
  type EnvironmentRequest,
  EnvironmentRequestSchema,
  type EnvironmentResponse,
} from "@dm-env-rpc/protocol";
import { counting, zeroCounters } from "../world.ts";

/** An agent in a world of its own. */
export interface Session {
  step(): Promise<void>;
  /** Leaves and destroys the world. */
  close(): Promise<void>;
}

const as = counting(zeroCounters());

/** Opens a session over a connection of its own, with this repository's client. */
export async function ownConnection(url: string): Promise<Session> {
  const connection = await connect(url, { connectTimeoutMs: 120_000 });
  const world = await connection.createWorld();
  const environment = await connection.join(world, { as });
  await environment.step({});
  return {
    async step() {
      await environment.step({ add: 1 });
    },
    async close() {
      await environment.close();
      await connection.destroyWorld(world);
      await connection.close();
    },
  };
}

/** An HTTP/2 connection whose streams are sessions. */
export interface SharedConnection {
  open(): Promise<Session>;
  close(): void;
}

type Payload = MessageInitShape<typeof EnvironmentRequestSchema>["payload"];
type Answer = EnvironmentResponse["payload"];

/** Connects once, with Connect's client and gRPC, for many sessions. */
export function sharedConnection(url: string): SharedConnection {
  const sessionManager = new Http2SessionManager(url);
  const client = createClient(Environment, createGrpcTransport({ baseUrl: url, sessionManager }));

  /** Opens a stream that has one request in flight at a time. */
  const openStream = () => {
    let send: (request: EnvironmentRequest | undefined) => void = () => {};
    const upcoming = () =>
      new Promise<EnvironmentRequest | undefined>((resolve) => {
        send = resolve;
      });
    let next = upcoming();
    async function* requests() {
      for (let request = await next; request !== undefined; request = await next) {
        next = upcoming();
        yield request;
      }
    }
    const answers = client.process(requests())[Symbol.asyncIterator]();
    return {
      async ask<K extends Answer["case"]>(
        payload: Payload & object,
        kind: K,
      ): Promise<Extract<Answer, { readonly case: K }>> {
        send(create(EnvironmentRequestSchema, { payload }));
        const { value, done } = await answers.next();
        const answer: Answer = done === true ? { case: undefined } : value.payload;
        if (!isOf(answer, kind)) {
          throw new Error(
            `expected ${kind}, received ${answer.case === "error" ? answer.value.message : answer.case}`,
          );
        }
        return answer;
      },
      end: () => send(undefined),
    };
  };

  return {
    async open() {
      const stream = openStream();
      const { value: created } = await stream.ask(
        { case: "createWorld", value: {} },
        "createWorld",
      );
      const { worldName } = created;
      const joined = await stream.ask({ case: "joinWorld", value: { worldName } }, "joinWorld");
      const requestedObservations = Object.keys(joined.value.specs?.observations ?? {}).map(BigInt);
      const step = { case: "step", value: { requestedObservations } } as const;
      await stream.ask(step, "step");
      return {
        async step() {
          await stream.ask(step, "step");
        },
        async close() {
          await stream.ask({ case: "leaveWorld", value: {} }, "leaveWorld");
          await stream.ask({ case: "destroyWorld", value: { worldName } }, "destroyWorld");
          stream.end();
        },
      };
    },
    close: () => sessionManager.abort(),
  };
}

function isOf<K extends Answer["case"]>(
  answer: Answer,
  kind: K,
): answer is Extract<Answer, { readonly case: K }> {
  return answer.case === kind;
}
