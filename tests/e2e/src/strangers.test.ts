// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { createClient, type Transport } from "@connectrpc/connect";
import { createConnectTransport, createGrpcTransport } from "@connectrpc/connect-node";
import { connect } from "@dm-env-rpc/client";
import {
  Environment,
  type EnvironmentRequest,
  EnvironmentRequestSchema,
  type EnvironmentResponse,
} from "@dm-env-rpc/protocol";
import { describe, expect, it } from "vitest";
import { gridworldServer } from "./programs.ts";

type Payload = EnvironmentRequest["payload"];

/** Creates, joins, steps, leaves and destroys, one request after the other, using only generated messages. */
async function play(transport: Transport): Promise<string[]> {
  const answered: string[] = [];
  let answer: (response: EnvironmentResponse) => void = () => {};
  let last = new Promise<EnvironmentResponse>((resolve) => {
    answer = resolve;
  });
  async function* requests() {
    const send = (payload: Payload) => create(EnvironmentRequestSchema, { payload });
    const response = async (): Promise<EnvironmentResponse["payload"]> => {
      const { payload } = await last;
      last = new Promise((resolve) => {
        answer = resolve;
      });
      return payload;
    };
    yield create(EnvironmentRequestSchema, { payload: { case: "createWorld", value: {} } });
    const created = await response();
    const worldName = created.case === "createWorld" ? created.value.worldName : "";
    yield create(EnvironmentRequestSchema, {
      payload: { case: "joinWorld", value: { worldName } },
    });
    const joined = await response();
    const specs = joined.case === "joinWorld" ? joined.value.specs : undefined;
    const uids = Object.keys(specs?.observations ?? {}).map(BigInt);
    for (let i = 0; i < 3; i++) {
      yield create(EnvironmentRequestSchema, {
        payload: { case: "step", value: { requestedObservations: uids } },
      });
      const stepped = await response();
      if (stepped.case !== "step") {
        throw new Error(`not a step: ${JSON.stringify(stepped)}`);
      }
      expect(Object.keys(stepped.value.observations)).toHaveLength(uids.length);
    }
    yield create(EnvironmentRequestSchema, { payload: { case: "leaveWorld", value: {} } });
    await response();
    yield create(EnvironmentRequestSchema, {
      payload: { case: "destroyWorld", value: { worldName } },
    });
    await response();
    yield send({ case: undefined });
    await response();
  }
  for await (const message of createClient(Environment, transport).process(requests())) {
    answered.push(message.payload.case ?? "nothing");
    answer(message);
  }
  return answered;
}

const expected = [
  "createWorld",
  "joinWorld",
  "step",
  "step",
  "step",
  "leaveWorld",
  "destroyWorld",
  "error",
];

describe("third-party clients", () => {
  it("play over the Connect protocol and HTTP/2", async () => {
    await using server = await gridworldServer();
    const baseUrl = `http://${server.address}`;
    expect(await play(createConnectTransport({ baseUrl, httpVersion: "2" }))).toEqual(expected);
  });

  it("play over gRPC", async () => {
    await using server = await gridworldServer();
    expect(await play(createGrpcTransport({ baseUrl: `http://${server.address}` }))).toEqual(
      expected,
    );
  });
});

describe("the sample world", () => {
  it("gives the same sequence for the same seed and actions, bit for bit", async () => {
    await using server = await gridworldServer();
    const run = async (seed: bigint): Promise<string> => {
      await using connection = await connect(server.address);
      const world = await connection.createWorld({ settings: { seed } });
      await using environment = await connection.join(world);
      const steps = [];
      for (let i = 0; i < 120; i++) {
        const { stepType, reward, observation } = await environment.step({ move: i % 6 });
        steps.push([stepType, reward, observation]);
      }
      return JSON.stringify(steps, (_, value) =>
        ArrayBuffer.isView(value)
          ? Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString("hex")
          : value,
      );
    };
    const first = await run(11n);
    expect(await run(11n)).toBe(first);
    expect(await run(12n)).not.toBe(first);
  });
});
