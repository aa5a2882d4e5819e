// SPDX-License-Identifier: Apache-2.0
import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { DmEnvRpcError, t } from "@dm-env-rpc/tensor-codec";
import { expect, test } from "vitest";
import { type PeerOptions, startPeer } from "./testing/peer.ts";

const main = fileURLToPath(new URL("../dist/main.js", import.meta.url));
const world: PeerOptions = { actions: { move: t.discrete(3) }, sequenceLength: 5 };

function run(args: readonly string[]) {
  const child = spawn(process.execPath, [main, ...args], { stdio: ["ignore", "pipe", "pipe"] });
  let stdout = "";
  let stderr = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => (stdout += text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
  const done = new Promise<{ code: number | null; stdout: string; stderr: string }>((resolve) =>
    child.on("close", (code) => resolve({ code, stdout, stderr })),
  );
  return { child, done };
}

test("plays and prints a summary", async () => {
  await using peer = await startPeer(world);
  const args = ["--address", peer.address, "--agents", "2", "--steps", "12", "--seed", "4"];
  const { code, stdout } = await run(args).done;
  expect(code).toBe(0);
  expect(stdout).toMatch(
    /^2 agents in world "arena", seed 4\n {2}agent 0 {2}12 steps, 2 sequences/,
  );
});

test("--json prints one object and nothing else", async () => {
  await using peer = await startPeer(world);
  const { code, stdout, stderr } = await run(["--address", peer.address, "--steps", "6", "--json"])
    .done;
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  expect(JSON.parse(stdout)).toMatchObject({ steps: 6, sequences: 1, agents: [{ agent: 0 }] });
});

test.each([
  [
    "an address where nobody listens",
    ["--address", "127.0.0.1:1"],
    1,
    /nobody listens .*127.0.0.1:1; start/,
  ],
  ["a flag that does not exist", ["--fast"], 2, /unknown flag --fast; see --help/],
  ["a flag that does not parse", ["--agents", "many"], 2, /--agents, received "many"; see --help/],
])("%s is one line on stderr", async (_name, args, expectedCode, line) => {
  const { code, stdout, stderr } = await run(args).done;
  expect({ code, stdout }).toEqual({ code: expectedCode, stdout: "" });
  expect(stderr).toMatch(line);
  expect(stderr.trimEnd().split("\n")).toHaveLength(1);
});

test("a world that is gone is one line on stderr", async () => {
  await using peer = await startPeer(world);
  const { code, stderr } = await run(["--address", peer.address, "--world", "ruin"]).done;
  expect(code).toBe(1);
  expect(stderr).toMatch(/^random-agent: there is no world "ruin" at .*leave --world out/);
  expect(stderr.trimEnd().split("\n")).toHaveLength(1);
});

test("a world without room for all agents is one line on stderr, and the end of all of them", async () => {
  let joins = 0;
  await using peer = await startPeer({
    ...world,
    onRequest: ({ case: kind }) => {
      if (kind === "joinWorld" && ++joins > 4)
        throw new DmEnvRpcError("RESOURCE_EXHAUSTED", "the world has room for 4 agents");
      return undefined;
    },
  });
  const { code, stderr } = await run(["--address", peer.address, "--agents", "32"]).done;
  expect(code).toBe(1);
  expect(stderr).toMatch(/^random-agent: .*room for 4 agents/);
  expect(stderr.trimEnd().split("\n")).toHaveLength(1);
});

test("a server that dies in mid-step is one line on stderr", async () => {
  let steps = 0;
  await using peer = await startPeer({
    ...world,
    onRequest: ({ case: kind }) => {
      if (kind !== "step" || ++steps < 5) return undefined;
      peer.crash();
      return "silence";
    },
  });
  const { code, stderr } = await run(["--address", peer.address, "--json"]).done;
  expect(code).toBe(1);
  expect(stderr).toMatch(
    /^random-agent: the server at .* was lost in mid-play; .*1 request .* will not be answered/,
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
      if (kind === "step") started();
      return undefined;
    },
  });
  const { child, done } = run(["--address", peer.address, "--steps", "100000000", "--json"]);
  await playing;
  child.kill(signal);
  const { code, stdout } = await done;
  expect(code).toBe(0);
  expect(JSON.parse(stdout)).toMatchObject({ endedEarly: true });
});
