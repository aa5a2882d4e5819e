// SPDX-License-Identifier: Apache-2.0

import { readFileSync } from "node:fs";
import { chmod, cp, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect } from "@dm-env-rpc/client";
import { gridworld } from "@dm-env-rpc/gridworld-server";
import { createEnvironmentServer, dialOut, lockstep } from "@dm-env-rpc/server";
import { freePort, run } from "@dm-env-rpc/tests-processes";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { DockerBuild } from "./docker/build.ts";
import { askHealth, startContainer } from "./docker/container.ts";
import { contextFiles } from "./docker/context.ts";
import { readDockerfile } from "./docker/dockerfile.ts";
import { makeProject } from "./made-project.ts";
import { bin, deploy, root } from "./paths.ts";

const template = join(root, "packages/create/template");
const dockerfiles = [join(deploy, "docker/Dockerfile"), join(template, "Dockerfile")];
const stages = readDockerfile(readFileSync(join(deploy, "docker/Dockerfile"), "utf8"));
const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));

let scratch = "";
let images: DockerBuild;
beforeAll(async () => {
  scratch = await mkdtemp(join(tmpdir(), "docker-"));
  await chmod(scratch, 0o755);
  images = new DockerBuild(stages, root, scratch);
});
afterAll(() => rm(scratch, { recursive: true }));

describe("the Dockerfiles", () => {
  it("pass hadolint", async () => {
    await run(join(bin, "hadolint"), ["--failure-threshold=style", ...dockerfiles]);
  });

  it("use the Node and pnpm of this repository", () => {
    for (const { base } of stages) {
      expect(base).toBe(`node:${manifest.toolchain.node}-bookworm-slim`);
    }
    const scripts = stages[0]?.steps.flatMap((step) => (step.kind === "run" ? [step.script] : []));
    expect(scripts).toContain(`npm install --global ${manifest.packageManager}`);
  });

  it("have a target for every app that does not run as root, ends on SIGTERM and reports its health", () => {
    expect(stages.slice(1).map(({ name, health, ports }) => [name, health, ports])).toEqual([
      ["gridworld-server", ["node", "health.ts", "http://127.0.0.1:8980"], ["8980"]],
      ["matchmaker-server", ["node", "health.ts", "http://127.0.0.1:8990"], ["8990"]],
      ["relay-server", ["node", "health.ts", "http://127.0.0.1:8970"], ["8970", "9000-9009"]],
      ["random-agent", "none", []],
    ]);
    for (const { user, stopSignal, entrypoint } of stages.slice(1)) {
      expect(user).toBe("1000:1000");
      expect(stopSignal).toBe("SIGTERM");
      expect(entrypoint).toEqual(["node", "dist/main.js"]);
    }
  });

  it("receive the sources without built or installed files", async () => {
    const files = await contextFiles(root);
    expect(files).toContain("packages/server/src/host/serve.ts");
    expect(files).toContain("deploy/docker/health.ts");
    const others = files.filter((file) =>
      /(^|\/)(dist|reports|\.turbo)\/|\.test\.ts$|^tests\//.test(file),
    );
    expect(others).toEqual([]);
  });
});

describe("the images", () => {
  it("contain only what their app needs at run time", {
    timeout: 600_000,
  }, async () => {
    for (const name of ["gridworld-server", "matchmaker-server", "relay-server", "random-agent"]) {
      const { workdir } = await images.build(name);
      const health = name === "random-agent" ? [] : ["health.ts"];
      expect((await readdir(workdir)).sort()).toEqual(
        ["LICENSE", "dist", ...health, "node_modules", "package.json"].sort(),
      );
      const installed = await readdir(join(workdir, "node_modules/.pnpm"));
      for (const tool of ["typescript", "vitest", "turbo", "fast-check"]) {
        expect(installed.filter((entry) => entry.startsWith(`${tool}@`))).toEqual([]);
      }
    }
  });

  it.each(["gridworld-server", "matchmaker-server"])(
    "%s starts as its image does, is healthy, and ends in good order on SIGTERM",
    { timeout: 600_000 },
    async (name) => {
      const image = await images.build(name);
      // The image's own files exist only in a container.
      const command = image.stage.command.map((word) => word.replace(/^\/run\/secrets/, scratch));
      for (const token of ["operator-token", "server-token"]) {
        await writeFile(join(scratch, token), `${token}\n`);
      }
      await using server = startContainer(image, [...command, "--port", "0"]);
      const port = await server.says(/^listening on http:\/\/0\.0\.0\.0:(\d+)$/m);
      expect(await askHealth(image, port)).toMatchObject({ status: 0, stderr: "" });
      expect(await server.stop()).toBe(0);
      const after = await askHealth(image, port);
      expect(after).toMatchObject({ status: 1 });
      expect(after.stderr).toMatch(/^http:\/\/127\.0\.0\.1:\d+ does not answer/);
    },
  );

  it("relay-server starts as its image does, is healthy, and relays an agent to a program", {
    timeout: 600_000,
  }, async () => {
    const image = await images.build("relay-server");
    const programs = join(scratch, "programs");
    const token = "token-of-a-program";
    await writeFile(programs, `game ${token}\n`);
    const port = await freePort();
    await using relay = startContainer(image, [
      ...image.stage.command,
      // The image's own ports and file exist only in a container.
      ...["--port", "0", "--program-ports", `${port}-${port}`, "--programs", programs],
    ]);
    const dialed = await relay.says(/^listening on http:\/\/0\.0\.0\.0:(\d+)$/m);
    expect(await askHealth(image, dialed)).toMatchObject({ status: 0, stderr: "" });
    const program = createEnvironmentServer({ worlds: [gridworld(lockstep())], premade: [{}] });
    await using place = await dialOut(program, { relay: `ws://127.0.0.1:${dialed}`, token });
    expect(place.address).toBe(`http://127.0.0.1:${port}`);
    await using connection = await connect(place.address);
    const environment = await connection.join("gridworld-1");
    expect((await environment.reset()).first()).toBe(true);
    await environment.close();
    expect(await relay.stop()).toBe(0);
  });

  it("play with each other", { timeout: 600_000 }, async () => {
    const image = await images.build("gridworld-server");
    await using server = startContainer(image, [...image.stage.command, "--port", "0"]);
    const port = await server.says(/^listening on http:\/\/0\.0\.0\.0:(\d+)$/m);
    await using agents = startContainer(await images.build("random-agent"), [
      ...["--address", `127.0.0.1:${port}`],
      ...["--agents", "4", "--steps", "50", "--json"],
    ]);
    const { status, stdout } = await agents.outcome();
    expect(status).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ agents: expect.anything() });
  });

  it("interrupt a playing agent when they are stopped", { timeout: 600_000 }, async () => {
    const image = await images.build("gridworld-server");
    await using server = startContainer(image, [...image.stage.command, "--port", "0"]);
    const port = await server.says(/^listening on http:\/\/0\.0\.0\.0:(\d+)$/m);
    const connection = await connect(`127.0.0.1:${port}`);
    const environment = await connection.join(await connection.createWorld(), {});
    await environment.reset();
    const ended = server.stop();
    // The signal may arrive after a step or two.
    await expect.poll(async () => (await environment.step({})).state).toBe("interrupted");
    await connection.close();
    expect(await ended).toBe(0);
  });

  it("are unhealthy while their server drains", { timeout: 600_000 }, async () => {
    const image = await images.build("gridworld-server");
    const flags = ["--port", "0", "--grace-ms", "120000"];
    await using server = startContainer(image, [...image.stage.command, ...flags]);
    const port = await server.says(/^listening on http:\/\/0\.0\.0\.0:(\d+)$/m);
    const connection = await connect(`127.0.0.1:${port}`);
    const environment = await connection.join(await connection.createWorld(), {});
    await environment.reset();
    server.process.kill("SIGTERM");
    await expect
      .poll(async () => (await askHealth(image, port)).stderr)
      .toMatch(/is not serving: expected the health 1, received 2/);
    await connection.close();
    expect(await server.ended).toBe(0);
  });
});

describe("a made project's image", () => {
  it("builds, and its container serves, is healthy, and ends on SIGTERM", {
    timeout: 600_000,
  }, async () => {
    await using project = await makeProject();
    const text = await readFile(join(project.folder, "Dockerfile"), "utf8");
    const place = join(scratch, "made");
    // The path that the project's file: dependencies resolve to from WORKDIR.
    for (const stage of ["dependencies", "stage-1"]) {
      await cp(project.tarballs, join(place, stage, "tarballs"), { recursive: true });
    }
    const image = await new DockerBuild(readDockerfile(text), project.folder, place).build(
      "stage 1",
    );
    expect((await readdir(image.workdir)).sort()).toEqual(["node_modules", "package.json", "src"]);
    expect(await readdir(join(image.workdir, "node_modules"))).not.toContain("vitest");
    await using server = startContainer(image, [...image.stage.command, "--port", "0"]);
    const port = await server.says(/^listening on http:\/\/0\.0\.0\.0:(\d+)$/m);
    expect((await askHealth(image, port)).status).toBe(0);
    expect(await server.stop()).toBe(0);
    expect(server.stderr).toBe("");
  });
});
