// SPDX-License-Identifier: Apache-2.0
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pack, t, tensor } from "@dm-env-rpc/tensor-codec";
import type { ProcessRequest } from "@dm-env-rpc/tensor-codec/wire";
import { memoryStreamPair } from "@dm-env-rpc/transport";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { connected, type Script, scriptedServer } from "../testing/scripted-server.ts";
import {
  fileSink,
  type RecordingEntry,
  readRecording,
  record,
  recordedFrames,
  replay,
} from "./index.ts";

const observations = { tick: t.int32(), board: t.uint8([2, 2, 3]), reward: t.float32() };

/** A world whose board depends on its seed, from the third step of each sequence. */
function seeded(): Script {
  let seed = 0;
  return {
    observations,
    sequenceLength: 4,
    observe: (name, tick) =>
      name === "tick" ? tick : name === "board" ? new Uint8Array(12).fill(tick < 3 ? 1 : seed) : 1,
    answer: (request) => {
      if (request.case === "createWorld") {
        const payload = request.value.settings["seed"]?.payload;
        seed = payload?.case === "uint64s" ? Number(payload.value.array[0]) : 0;
      }
      return undefined;
    },
  };
}

/** Returns the bytes of a recording of a short run. */
async function recorded(
  script: Script = seeded(),
  observations: readonly string[] = ["tick", "board", "reward"],
): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  const { connection } = await connected(script);
  let timeUs = 0;
  record(
    connection,
    { write: (bytes) => chunks.push(bytes) },
    {
      versions: { agent: "1.2.3", world: "4" },
      nowUs: () => ++timeUs,
    },
  );
  const world = await connection.createWorld({
    settings: { seed: pack(7n, { dtype: "uint64" }) },
  });
  const environment = await connection.join(world, { observations });
  await environment.stepMany(Array.from({ length: 7 }, () => ({ move: 2 })));
  await connection
    .send({
      case: "readProperty",
      value: { $typeName: "dm_env_rpc.v1.ReadPropertyRequest", keys: ["x"] },
    })
    .catch(() => undefined);
  await environment.close();
  await connection.destroyWorld(world);
  await connection.close();
  return Buffer.concat(chunks);
}

function target(script: Script): { stream: ReturnType<typeof memoryStreamPair>[0] } {
  const [stream, server] = memoryStreamPair();
  scriptedServer(server, script);
  return { stream };
}

async function entries(bytes: Uint8Array): Promise<RecordingEntry[]> {
  const all: RecordingEntry[] = [];
  for await (const entry of readRecording(bytes)) {
    all.push(entry);
  }
  return all;
}

describe("a recording", () => {
  test("has every request and response with its time, after a header with versions", async () => {
    const [header, ...rest] = await entries(await recorded());
    expect(header).toMatchObject({
      case: "header",
      timeUs: 1,
      value: { peer: "the server", versions: { agent: "1.2.3", world: "4" } },
    });
    const kinds = (which: string) =>
      rest
        .filter((entry) => entry.case === which)
        .map(({ value }) => ("case" in value ? value.case : undefined));
    const made = [
      "createWorld",
      "joinWorld",
      ...Array(7).fill("step"),
      "readProperty",
      "leaveWorld",
      "destroyWorld",
    ];
    expect(kinds("request")).toEqual(made);
    expect(kinds("response")).toEqual(
      made.map((kind) => (kind === "readProperty" ? "error" : kind)),
    );
    expect(rest.map(({ timeUs }) => timeUs)).toEqual(rest.map((_, i) => i + 2));
    expect(rest.find(({ value }) => "case" in value && value.case === "step")).toMatchObject({
      value: { value: { requestedObservations: [101, 102, 103] } },
    });
  });

  test("can be read in chunks of any size", async () => {
    const bytes = await recorded();
    async function* chunks() {
      for (let at = 0; at < bytes.length; at += 7) {
        yield bytes.subarray(at, at + 7);
      }
    }
    const all: RecordingEntry[] = [];
    for await (const entry of readRecording(chunks())) {
      all.push(entry);
    }
    expect(all).toEqual(await entries(bytes));
  });

  test("that is truncated yields its complete entries, then an error; other files are refused", async () => {
    const bytes = await recorded();
    const seen: RecordingEntry[] = [];
    const reading = async () => {
      for await (const entry of readRecording(bytes.subarray(0, -3))) {
        seen.push(entry);
      }
    };
    await expect(reading()).rejects.toMatchObject({ code: "DATA_LOSS" });
    expect(seen).toHaveLength((await entries(bytes)).length - 1);
    await expect(entries(new Uint8Array(0))).rejects.toThrow(/empty file/);
    await expect(entries(Buffer.from("hello, this is no recording at all"))).rejects.toMatchObject({
      code: "DATA_LOSS",
    });
    await expect(entries(Uint8Array.of(255, 255, 255, 255, 127))).rejects.toMatchObject({
      code: "DATA_LOSS",
    });
  });

  test("yields the frames of a named observation", async () => {
    const frames = [];
    for await (const frame of recordedFrames(await recorded(), "board")) {
      frames.push(frame);
    }
    expect(frames.map(({ step }) => step)).toEqual([0, 1, 2, 3, 4, 5, 6]);
    expect(frames[3]?.tensor).toEqual(tensor("uint8", [2, 2, 3], new Uint8Array(12).fill(7)));
  });
});

describe("a replay", () => {
  test("of the same world has no difference, even if world names and UIDs have changed", async () => {
    const bytes = await recorded();
    expect(await replay(bytes, target(seeded()))).toEqual({
      requests: 12,
      steps: 7,
      difference: undefined,
    });
    const part = await recorded(seeded(), ["board"]);
    const requests: ProcessRequest[] = [];
    const renamed: Script = {
      ...seeded(),
      observations: {
        board: observations.board,
        reward: observations.reward,
        tick: observations.tick,
      },
      answer: (request) => {
        requests.push(request);
        seeding.answer?.(request, undefined as never);
        return request.case === "createWorld"
          ? {
              case: "createWorld",
              value: { $typeName: "dm_env_rpc.v1.CreateWorldResponse", worldName: "other" },
            }
          : undefined;
      },
    };
    const seeding = seeded();
    const result = await replay(
      part,
      target({ ...renamed, ...(seeding.observe && { observe: seeding.observe }) }),
    );
    expect(result.difference).toBeUndefined();
    expect(requests.find(({ case: kind }) => kind === "joinWorld")).toMatchObject({
      value: { worldName: "other" },
    });
  });

  test("with another seed names the first difference", async () => {
    const result = await replay(await recorded(), target(seeded()), {
      createSettings: { seed: 8n },
    });
    expect(result).toEqual({
      requests: 6,
      steps: 4,
      difference: {
        request: 5,
        kind: "step",
        step: 3,
        where: 'observation "board", element 0',
        expected: "7",
        received: "8",
      },
    });
  });

  test("names a state or a spec that differs", async () => {
    const bytes = await recorded();
    const shorter = await replay(bytes, target({ ...seeded(), sequenceLength: 2 }));
    expect(shorter.difference).toMatchObject({
      step: 2,
      where: "state",
      expected: "1",
      received: "2",
    });
    const wider = await replay(
      bytes,
      target({ ...seeded(), observations: { ...observations, board: t.uint8([3, 3, 3]) } }),
    );
    expect(wider.difference).toMatchObject({
      kind: "joinWorld",
      where: 'the spec of "board" in the observations',
      expected: "uint8 [2,2,3]",
      received: "uint8 [3,3,3]",
    });
  });
});

describe("a file sink", () => {
  let folder = "";
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "recording-"));
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  test("stores a recording that is larger than its buffer, and the file can be read", async () => {
    const path = join(folder, "run.bin");
    const chunks = [100, 300_000, 1, 200_000, 200_000].map((length, i) =>
      new Uint8Array(length).fill(i),
    );
    {
      using sink = fileSink(path);
      for (const chunk of chunks) {
        sink.write(chunk);
      }
    }
    expect(Buffer.compare(readFileSync(path), Buffer.concat(chunks))).toBe(0);

    const { connection } = await connected();
    using sink = fileSink(path);
    const stop = record(connection, sink);
    await connection.createWorld();
    stop();
    await connection.leave();
    await connection.close();
    sink.close();
    const read: string[] = [];
    for await (const entry of readRecording(path)) {
      read.push(entry.case);
    }
    expect(read).toEqual(["header", "request", "response"]);
  });
});
