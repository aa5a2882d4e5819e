// SPDX-License-Identifier: Apache-2.0
import { fileURLToPath } from "node:url";
import { DmEnvRpcError, t } from "@dm-env-rpc/tensor-codec";
import { Program } from "@dm-env-rpc/tests-processes";
import { expect, test } from "vitest";
import { type PeerOptions, startPeer } from "./testing/peer.ts";

const main = fileURLToPath(new URL("../dist/main.js", import.meta.url));
const world: PeerOptions = { actions: { move: t.discrete(3) }, sequenceLength: 5 };

function start(args: readonly string[]): Program {
  return new Program(process.execPath, [main, ...args]);
}

test("plays and prints a summary", async () => {
  await using peer = await startPeer(world);
  const args = ["--address", peer.address, "--agents", "2", "--steps", "12", "--seed", "4"];
  const { status, stdout } = await start(args).outcome();
  expect(status).toBe(0);
  expect(stdout).toMatch(
    /^2 agents in world "arena", seed 4\n {2}agent 0 {2}12 steps, 2 sequences/,
  );
});

test("--json prints one object and nothing else", async () => {
  await using peer = await startPeer(world);
  const { status, stdout, stderr } = await start([
    "--address",
    peer.address,
    "--steps",
    "6",
    "--json",
  ]).outcome();
  expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
  expect(JSON.parse(stdout)).toMatchObject({ steps: 6, sequences: 1, agents: [{ agent: 0 }] });
});

test.each([
  [
    "an address without a server",
    ["--address", "127.0.0.1:1"],
    1,
    /cannot reach a server at 127.0.0.1:1; start/,
  ],
  ["a flag that does not exist", ["--fast"], 2, /unknown flag --fast; see --help/],
  ["a flag that does not parse", ["--agents", "many"], 2, /--agents, received "many"; see --help/],
])("%s is one line on stderr", async (_name, args, expectedStatus, line) => {
  const { status, stdout, stderr } = await start(args).outcome();
  expect({ status, stdout }).toEqual({ status: expectedStatus, stdout: "" });
  expect(stderr).toMatch(line);
  expect(stderr.trimEnd().split("\n")).toHaveLength(1);
});

test("a destroyed world is one line on stderr", async () => {
  await using peer = await startPeer(world);
  const { status, stderr } = await start(["--address", peer.address, "--world", "ruin"]).outcome();
  expect(status).toBe(1);
  expect(stderr).toMatch(/^random-agent: the world "ruin" does not exist at .*omit --world/);
  expect(stderr.trimEnd().split("\n")).toHaveLength(1);
});

test("a world without room for all agents ends all of them with one line on stderr", async () => {
  let joins = 0;
  await using peer = await startPeer({
    ...world,
    onRequest: ({ case: kind }) => {
      if (kind === "joinWorld" && ++joins > 4) {
        throw new DmEnvRpcError("RESOURCE_EXHAUSTED", "the world has room for 4 agents");
      }
      return undefined;
    },
  });
  const { status, stderr } = await start(["--address", peer.address, "--agents", "32"]).outcome();
  expect(status).toBe(1);
  expect(stderr).toMatch(/^random-agent: .*room for 4 agents/);
  expect(stderr.trimEnd().split("\n")).toHaveLength(1);
});

test("a server that dies during a step is one line on stderr", async () => {
  let steps = 0;
  await using peer = await startPeer({
    ...world,
    onRequest: ({ case: kind }) => {
      if (kind !== "step" || ++steps < 5) {
        return undefined;
      }
      peer.crash();
      return "silence";
    },
  });
  const { status, stderr } = await start(["--address", peer.address, "--json"]).outcome();
  expect(status).toBe(1);
  expect(stderr).toMatch(
    /^random-agent: the server at .* was lost while agents played; .*1 request .* will not be answered/,
  );
  expect(stderr.trimEnd().split("\n")).toHaveLength(1);
});

test.each(["SIGINT", "SIGTERM"] as const)("%s ends it with the summary", async (signal) => {
  let started: () => void = () => undefined;
  const playing = new Promise<void>((resolve) => {
    started = resolve;
  });
  await using peer = await startPeer({
    ...world,
    onRequest: ({ case: kind }) => {
      if (kind === "step") {
        started();
      }
      return undefined;
    },
  });
  await using program = start(["--address", peer.address, "--steps", "100000000", "--json"]);
  await playing;
  program.process.kill(signal);
  const { status, stdout } = await program.outcome();
  expect(status).toBe(0);
  expect(JSON.parse(stdout)).toMatchObject({ endedEarly: true });
});
