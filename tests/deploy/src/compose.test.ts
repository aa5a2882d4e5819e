// SPDX-License-Identifier: Apache-2.0

import { readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, normalize } from "node:path";
import type { Program } from "@dm-env-rpc/tests-processes";
import { expect, it, onTestFinished } from "vitest";
import { appHelp } from "./app-help.ts";
import { Processes } from "./compose/processes.ts";
import { inOrder, loadProject } from "./compose/project.ts";
import { readDockerfile } from "./docker/dockerfile.ts";
import { argument, bytesOf, option } from "./manifests/render.ts";
import { deploy } from "./paths.ts";

const project = await loadProject();
const services = Object.entries(project.services);
const stages = readDockerfile(readFileSync(join(deploy, "docker/Dockerfile"), "utf8"));

it("builds targets of the Dockerfile and passes valid options to the apps", async () => {
  for (const [name, { build, command = [], read_only }] of services) {
    if (build === undefined) {
      continue;
    }
    expect(normalize(build.dockerfile), name).toBe("deploy/docker/Dockerfile");
    expect(stages.map((stage) => stage.name)).toContain(build.target);
    expect(read_only, name).toBe(true);
    const help = await appHelp(build.target);
    for (const arg of command) {
      expect(help).toContain(` ${arg.split("=")[0]} `);
    }
  }
});

it("waits only for services with a health check", () => {
  // The relay is for programs outside of the project: no service waits for it.
  const order = inOrder(project.services).filter((name) => name !== "relay");
  expect(order.at(-1)).toBe("agents");
  for (const [, { depends_on = {} }] of services) {
    for (const [name, { condition }] of Object.entries(depends_on)) {
      expect(condition).toBe("service_healthy");
      const { healthcheck, build } = project.services[name] ?? {};
      const stage = stages.find((each) => each.name === build?.target);
      expect(healthcheck?.test ?? stage?.health, name).toEqual(expect.any(Array));
    }
  }
});

it("publishes the ports that agents and programs connect to under the same numbers", () => {
  for (const [name, { command = [], ports = [] }] of services) {
    const serves = /^(matchmaker|gridworld-\d|relay)$/.test(name);
    const [first, last] = (option(command, "program-ports") ?? "1-0").split("-").map(Number);
    const targets = serves ? [Number(option(command, "port"))] : [];
    for (let port = first ?? 1; port <= (last ?? 0); port++) {
      targets.push(port);
    }
    expect(ports, name).toEqual(
      targets.map((target) =>
        expect.objectContaining({ host_ip: "127.0.0.1", target, published: `${target}` }),
      ),
    );
  }
});

it("checks each server's health at the address that it listens on", () => {
  for (const [name, { build, command = [], healthcheck }] of services) {
    const stage = stages.find((each) => each.name === build?.target);
    if (build === undefined || stage?.health === "none") {
      continue;
    }
    const test = healthcheck?.test.slice(1) ?? stage?.health;
    expect(test, name).toContain(`http://127.0.0.1:${option(command, "port")}`);
  }
});

it("lets Redis refuse writes when its memory is full", () => {
  const { command = [] } = project.services["redis"] ?? {};
  expect(argument(command, "maxmemory-policy")).toBe("noeviction");
  expect(bytesOf(argument(command, "maxmemory"))).toBeGreaterThan(0);
});

it("gives every service time for its drain", () => {
  for (const [name, { build, command = [], stop_grace_period = "10s" }] of services) {
    if (build === undefined) {
      continue;
    }
    const drainMs = Number(option(command, "grace-ms") ?? 5_000);
    expect(Number.parseInt(stop_grace_period, 10) * 1_000, name).toBeGreaterThanOrEqual(
      drainMs + 5_000,
    );
  }
});

it("gives servers unique names and ports at which the matchmaker reaches them", () => {
  const servers = services.filter(([, { build }]) => build?.target === "gridworld-server");
  expect(servers).toHaveLength(2);
  for (const [name, { command = [] }] of servers) {
    expect(option(command, "advertise")).toBe(`${name}:${option(command, "port")}`);
  }
  const matchmaker = `matchmaker:${option(project.services["matchmaker"]?.command ?? [], "port")}`;
  for (const [name, { command = [] }] of services) {
    const address = option(command, "matchmaker");
    if (name.startsWith("gridworld") || name === "agents") {
      expect(address).toBe(matchmaker);
    }
  }
});

it("plays: Redis, the matchmaker, the servers and the agents, as processes", async () => {
  const scratch = await mkdtemp(join(tmpdir(), "compose-"));
  onTestFinished(() => rm(scratch, { recursive: true }));
  await using processes = new Processes(project, scratch);
  const started = new Map<string, Program>();
  for (const name of inOrder(project.services)) {
    const program = await processes.start(name);
    started.set(name, program);
    if (name === "redis") {
      await program.says(/Ready to accept connections/);
    } else if (name !== "agents") {
      await program.says(/^listening on (\S+)$/m);
    }
  }
  expect(await started.get("agents")?.ended).toBe(0);
  for (const name of ["gridworld-1", "gridworld-2", "matchmaker", "relay"]) {
    expect(await started.get(name)?.stop(), name).toBe(0);
  }
}, 300_000);
