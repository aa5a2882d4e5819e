// SPDX-License-Identifier: Apache-2.0
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { serve } from "@dm-env-rpc/server";
import { Program } from "@dm-env-rpc/tests-processes";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { pairs } from "../../testing/pairs.ts";
import { counting, serveCounting } from "../../testing/world-server.ts";
import { storeWithOutage } from "../../testing/wrapped-stores.ts";
import { joinMatch, matchmakerClient } from "../client/index.ts";
import { type MatchmakerServer, serveMatchmaker } from "../serve-matchmaker.ts";
import { memoryStore } from "../store/memory-store.ts";

const main = fileURLToPath(new URL("../../dist/cli/main.js", import.meta.url));

describe("npx @dm-env-rpc/matchmaker", () => {
  const folder = mkdtempSync(join(tmpdir(), "matchmaker-cli-"));
  const token = join(folder, "token");
  const resources = new AsyncDisposableStack();
  let matchmaker: MatchmakerServer;
  let serverId: string;

  /** Runs a command as an operator. */
  const cli = async (...args: string[]) => {
    await using program = new Program(process.execPath, [
      main,
      ...args,
      ...["--matchmaker", matchmaker.url, "--token", token],
    ]);
    const status = await program.ended;
    return { status, stdout: program.stdout, stderr: program.stderr };
  };
  /** Returns the cells of the table that a command prints. */
  const table = async (...args: string[]): Promise<string[][]> => {
    const { stdout } = await cli(...args);
    const lines = stdout.trimEnd().split("\n");
    return lines.map((line) => line.split(/ {2,}/));
  };

  beforeAll(async () => {
    writeFileSync(token, "secret\n");
    matchmaker = resources.use(
      await serveMatchmaker({
        profiles: [pairs],
        authorize: ({ metadata }) =>
          metadata.get("authorization") === "Bearer secret"
            ? ["agent", "server", "operator"]
            : ["agent", "server"],
      }),
    );
    const registered = resources.use(
      await serveCounting(matchmaker.url, { region: "north", load: () => 0.126 }),
    );
    await registered.registration.registered;
    ({ serverId } = registered.registration);
    const client = matchmakerClient(matchmaker.url, { timeoutMs: 60_000 });
    const matches = await Promise.all([client.findMatch(), client.findMatch()]);
    for (const match of matches) {
      resources.use(await joinMatch(match));
    }
  });
  afterAll(async () => {
    await resources.disposeAsync();
    rmSync(folder, { recursive: true });
  });

  it("prints tables of servers, worlds, profiles and tickets", async () => {
    const [heads, server] = await table("servers");
    expect(heads).toEqual([
      "SERVER",
      "STATE",
      "REGION",
      "ADDRESS",
      "WORLDS",
      "SEATS",
      "AGENTS",
      "LOAD",
      "TYPES",
    ]);
    const url = server?.[3];
    await expect
      .poll(async () => (await table("servers"))[1], { timeout: 60_000 })
      .toEqual([serverId, "serving", "north", url, "1/10", "2/20", "2", "13%", "counting"]);
    await expect
      .poll(async () => (await table("worlds"))[1]?.slice(1, 5), { timeout: 60_000 })
      .toEqual(["counting", serverId, url, "2"]);
    expect((await table("profiles"))[1]).toEqual([
      "pairs",
      "byCount",
      "all",
      "counting",
      "-",
      "no",
    ]);
    await expect
      .poll(async () => (await table("tickets", "--state", "joined")).length, { timeout: 60_000 })
      .toBe(3);
    expect(await table("tickets", "--state", "waiting")).toHaveLength(1);
  });

  it("prints JSON without join tokens", async () => {
    const { stdout } = await cli("tickets", "--json");
    const tickets = stdout
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line));
    expect(tickets).toHaveLength(2);
    expect(tickets[0]).toMatchObject({
      partySize: 1,
      assignment: { worldName: expect.any(String) },
    });
    expect(stdout).not.toMatch(/joinToken/);
    const servers = await cli("servers", "--json");
    expect(JSON.parse(servers.stdout)).toMatchObject({ id: serverId, region: "north" });
  });

  it("with watch prints profiles, servers, matches and tickets, then each change, until it is interrupted", async () => {
    await using program = new Program(process.execPath, [
      main,
      ...["watch", "--matchmaker", matchmaker.url, "--token", token],
    ]);
    await program.says(/ {2}profile {2}pairs {2}for worlds of type counting/);
    await program.says(new RegExp(` {2}server {3}${serverId}`));
    const client = matchmakerClient(matchmaker.url, { timeoutMs: 60_000 });
    for await (const { ticketId } of client.find()) {
      await program.says(new RegExp(` {2}ticket {3}${ticketId} {2}waiting`));
      break;
    }
    program.process.kill("SIGINT");
    expect(await program.ended).toBe(0);
  });

  it("drains a server, and for an unknown id names the command that lists servers", async () => {
    expect(await cli("drain", "unregistered")).toMatchObject({
      status: 1,
      stderr: expect.stringMatching(
        /^drain: expected .* received "unregistered"; run the command "servers"/,
      ),
    });
    expect(await cli("drain", serverId)).toMatchObject({ status: 0 });
    expect((await table("servers"))[1]?.[1]).toBe("draining");
  });

  it.each([
    ["no command", [], /command: expected one of tickets, .*, received none; see --help/],
    ["an unknown command", ["kick"], /command: expected one of tickets, .*, received "kick"/],
    ["a drain without an id", ["drain"], /drain: expected the id of one server, received 0 ids/],
    [
      "an unknown state",
      ["tickets", "--state", "lost"],
      /--state: expected one of waiting, .*"lost"/,
    ],
    [
      "--state with another command",
      ["servers", "--state", "waiting"],
      /--state: .*command "tickets", received with "servers"/,
    ],
    [
      "a key without a certificate",
      ["servers", "--key", "k"],
      /--cert and --key: expected both, received only --key/,
    ],
    ["a missing file", ["servers", "--ca", "/none"], /--ca: expected a file .*"\/none"/],
    ["a malformed address", ["servers", "--matchmaker", "ftp://a"], /--matchmaker: /],
    [
      "an operand that the command does not have",
      ["servers", "all"],
      /servers: expected no operands, received "all"/,
    ],
    ["an unknown flag", ["servers", "--wide"], /--wide/],
  ])("refuses %s with exit code 2", async (_, args, message) => {
    await using program = new Program(process.execPath, [main, ...args]);
    expect(await program.ended).toBe(2);
    expect(program.stderr).toMatch(message);
    expect(program.stderr.trimEnd()).not.toContain("\n");
  });

  it.each([
    [
      "no server listens",
      "127.0.0.1:1",
      /no matchmaker answered at 127\.0\.0\.1:1: .*--matchmaker/,
    ],
    [
      "no token is given",
      undefined,
      /AdminService: expected a caller with the role "operator".*--token FILE/,
    ],
  ])("exits with 1 and names the remedy if %s", async (_, address, message) => {
    await using program = new Program(process.execPath, [
      main,
      ...["servers", "--matchmaker", address ?? matchmaker.url],
    ]);
    expect(await program.ended).toBe(1);
    expect(program.stderr).toMatch(message);
  });

  it("reports the error of a matchmaker that cannot reach its store", async () => {
    const { store, outage } = storeWithOutage(memoryStore(), "read");
    await using storeless = await serveMatchmaker({ store });
    outage.isOn = true;
    await using program = new Program(process.execPath, [
      main,
      ...["drain", serverId, "--matchmaker", storeless.url],
    ]);
    expect(await program.ended).toBe(1);
    expect(program.stderr).toBe("drain: the matchmaker cannot reach its store; try again\n");
  });

  it("reports that another kind of server answered", async () => {
    await using server = await serve({ worlds: [counting] });
    await using program = new Program(process.execPath, [
      main,
      ...["tickets", "--matchmaker", server.url],
    ]);
    expect(await program.ended).toBe(1);
    expect(program.stderr).toMatch(
      /expected a matchmaker at .*, received an answer from another kind of server/,
    );
  });
});
