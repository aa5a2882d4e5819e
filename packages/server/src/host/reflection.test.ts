// SPDX-License-Identifier: Apache-2.0
import { connect as connectTcp } from "node:net";
import { createRegistry, type DescFile, fromBinary } from "@bufbuild/protobuf";
import { FileDescriptorProtoSchema, file_google_protobuf_struct } from "@bufbuild/protobuf/wkt";
import { Code, createClient, createRouterTransport } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { ServerReflection, type ServerReflectionRequest } from "@dm-env-rpc/protocol/reflection";
import { ServerReflection as V1Alpha } from "@dm-env-rpc/protocol/reflection-v1alpha";
import { describe, expect, it, vi } from "vitest";
import { serving } from "../../testing/network.ts";
import { tally } from "../../testing/tally.ts";
import { addReflection, answerQuestion } from "./reflection.ts";
import type { Server } from "./serve.ts";

type Question = Pick<ServerReflectionRequest, "messageRequest">["messageRequest"];

async function ask(url: string, questions: readonly Question[], service = ServerReflection) {
  const client = createClient(service, createGrpcTransport({ baseUrl: url }));
  const requests = questions.map((messageRequest) => ({ host: "here", messageRequest }));
  async function* stream() {
    yield* requests;
  }
  const answers = [];
  for await (const response of client.serverReflectionInfo(stream())) {
    expect(response.validHost).toBe("here");
    expect(response.originalRequest).toMatchObject({ host: "here" });
    answers.push(response.messageResponse);
  }
  return answers;
}

function filesOf(answer: Awaited<ReturnType<typeof ask>>[number] | undefined): string[] {
  if (answer?.case !== "fileDescriptorResponse") {
    throw new Error(`received ${answer?.case}`);
  }
  return answer.value.fileDescriptorProto.map(
    (bytes) => fromBinary(FileDescriptorProtoSchema, bytes).name,
  );
}

describe("reflection", () => {
  it.each([
    ["v1", ServerReflection],
    ["v1alpha", V1Alpha as unknown as typeof ServerReflection],
  ])("lists every service of the port, in %s", async (_version, service) => {
    await using server = await serving({ worlds: [tally()] });
    const [list] = await ask(server.url, [{ case: "listServices", value: "" }], service);
    expect(
      list?.case === "listServicesResponse" && list.value.service.map(({ name }) => name),
    ).toEqual([
      "dm_env_rpc.v1.Environment",
      "grpc.health.v1.Health",
      "grpc.reflection.v1.ServerReflection",
      "grpc.reflection.v1alpha.ServerReflection",
      "spectator.v1.SpectatorService",
    ]);
  });

  it("finds a file by its name or by a symbol, and returns it with all its imports", async () => {
    await using server = await serving({ worlds: [tally()] });
    const symbols = [
      "dm_env_rpc.v1.Environment",
      "dm_env_rpc.v1.Environment.Process",
      "dm_env_rpc.v1.Tensor",
      "dm_env_rpc.v1.Tensor.shape",
      "dm_env_rpc.v1.Tensor.FloatArray",
      ".dm_env_rpc.v1.DataType",
    ];
    const answers = await ask(server.url, [
      { case: "fileByFilename", value: "dm_env_rpc/v1/dm_env_rpc.proto" },
      ...symbols.map((value) => ({ case: "fileContainingSymbol" as const, value })),
    ]);
    for (const answer of answers) {
      expect(filesOf(answer)).toEqual([
        "dm_env_rpc/v1/dm_env_rpc.proto",
        "google/protobuf/any.proto",
        "google/rpc/status.proto",
      ]);
    }
    expect(answers).toHaveLength(7);
  });

  it("reports a missing symbol and continues", async () => {
    await using server = await serving({ worlds: [tally()] });
    const missing = await ask(server.url, [
      { case: "fileByFilename", value: "chess.proto" },
      { case: "fileContainingSymbol", value: "dm_env_rpc.v1.Tensor.nothing" },
      { case: "fileContainingSymbol", value: "" },
      {
        case: "fileContainingExtension",
        value: { containingType: "dm_env_rpc.v1.Tensor", extensionNumber: 7 } as never,
      },
      { case: "allExtensionNumbersOfType", value: "chess.Board" },
      { case: undefined },
      { case: "allExtensionNumbersOfType", value: "dm_env_rpc.v1.Tensor" },
    ]);
    expect(
      missing.map((answer) => answer.case === "errorResponse" && answer.value.errorCode),
    ).toEqual([5, 5, 5, 5, 5, 3, false]);
  });

  it("describes the properties extension and the files in `descriptors`", async () => {
    await using server = await serving({
      worlds: [tally()],
      descriptors: [file_google_protobuf_struct],
    });
    const symbols = [
      "dm_env_rpc.v1.extensions.properties.PropertyRequest",
      "google.protobuf.Struct",
    ];
    const answers = await ask(
      server.url,
      symbols.map((value) => ({ case: "fileContainingSymbol" as const, value })),
    );
    expect(answers.map((answer) => filesOf(answer)[0])).toEqual([
      "dm_env_rpc/v1/extensions/properties.proto",
      "google/protobuf/struct.proto",
    ]);
  });
});

it("finds a symbol with one lookup, however many dots it has", () => {
  const lookups: string[] = [];
  class CountedMap extends Map<string, DescFile> {
    override get(symbol: string): DescFile | undefined {
      lookups.push(symbol);
      return super.get(symbol);
    }
  }
  const described = {
    services: [],
    files: new Map(),
    symbols: new CountedMap(),
    encoded: new Map(),
    types: createRegistry(),
  };
  const value = "grpc.reflection.v1.ServerReflection".padEnd(60_000, ".x");
  const answer = answerQuestion(described, { case: "fileContainingSymbol", value });
  expect(answer).toMatchObject({ case: "errorResponse", value: { errorCode: 5 } });
  expect(lookups).toEqual([value]);
});

it("answers requests that arrive together in many turns of the event loop", async () => {
  const transport = createRouterTransport((router) => addReflection(router, []));
  async function* requests() {
    for (let i = 0; i < 1_000; i++) {
      yield { messageRequest: { case: "listServices" as const, value: "x".repeat(10_000) } };
    }
  }
  let turns = 0;
  let isOver = false;
  const countTurns = (): void => {
    turns += 1;
    if (!isOver) {
      setImmediate(countTurns);
    }
  };
  setImmediate(countTurns);
  for await (const _ of createClient(ServerReflection, transport).serverReflectionInfo(
    requests(),
  )) {
    // Responses are not needed.
  }
  isOver = true;
  expect(turns).toBeGreaterThan(5);
});

/** Opens calls of reflection from an address of this machine. Each stays open until it is ended. */
function openCalls({ url, host, port }: Server, localAddress: string) {
  const transport = createGrpcTransport({
    baseUrl: url,
    nodeOptions: { createConnection: () => connectTcp({ host, port, localAddress }) },
  });
  const client = createClient(ServerReflection, transport);
  const ends: (() => void)[] = [];
  return {
    async open() {
      async function* requests() {
        yield { host: "", messageRequest: { case: "listServices" as const, value: "" } };
        await new Promise<void>((resolve) => ends.push(resolve));
      }
      const responses = client.serverReflectionInfo(requests())[Symbol.asyncIterator]();
      const first = await responses.next();
      expect(first.done).toBe(false);
      return responses;
    },
    end() {
      for (const end of ends.splice(0)) {
        end();
      }
    },
  };
}

const refusedBy = (message: string) => ({
  code: Code.ResourceExhausted,
  rawMessage: expect.stringContaining(message),
});

it("serves 16 calls of reflection at a time from one address, and refuses another until one has ended", async () => {
  await using server = await serving({ worlds: [tally()] });
  const calls = openCalls(server, "127.0.0.1");
  const open = await Promise.all(Array.from({ length: 16 }, calls.open));
  await expect(calls.open()).rejects.toMatchObject(
    refusedBy("at most 16 at a time from one address"),
  );
  calls.end();
  for (const responses of open) {
    expect((await responses.next()).done).toBe(true);
  }
  await vi.waitFor(calls.open, 60_000);
  calls.end();
});

it("serves 64 calls of reflection at a time from all addresses, and another once some have ended", async () => {
  await using server = await serving({ worlds: [tally()] });
  const hosts = [2, 3, 4, 5].map((host) => openCalls(server, `127.0.0.${host}`));
  await Promise.all(hosts.flatMap(({ open }) => Array.from({ length: 16 }, open)));
  const other = openCalls(server, "127.0.0.6");
  await expect(other.open()).rejects.toMatchObject(
    refusedBy("expected at most 64 at a time, received one more"),
  );
  hosts[0]?.end();
  await vi.waitFor(other.open, 60_000);
  for (const { end } of [...hosts, other]) {
    end();
  }
});
