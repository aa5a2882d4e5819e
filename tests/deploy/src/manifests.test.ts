// SPDX-License-Identifier: Apache-2.0

import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { defaultSettings, type MatchmakerSettings } from "@dm-env-rpc/matchmaker";
import { Program, run } from "@dm-env-rpc/tests-processes";
import { Ajv } from "ajv";
import { describe, expect, it, onTestFinished } from "vitest";
import { parse } from "yaml";
import { appHelp } from "./app-help.ts";
import { fleetAutoscalerSchema, fleetSchema } from "./manifests/agones-schema.ts";
import {
  argument,
  bytesOf,
  type Container,
  type Manifest,
  option,
  podsOf,
  render,
} from "./manifests/render.ts";
import { bin, deploy, root } from "./paths.ts";

const folders = ["kubernetes/overlays/development", "kubernetes/overlays/production", "agones"];
const rendered = await Promise.all(
  folders.map(async (folder) => [folder, await render(join(deploy, folder))] as const),
);
const ours = ["gridworld-server", "matchmaker-server", "random-agent"];
const schemas: Readonly<Record<string, object>> = {
  Fleet: fleetSchema,
  FleetAutoscaler: fleetAutoscalerSchema,
};

function named(manifests: readonly Manifest[], kind: string): readonly string[] {
  return manifests.filter((each) => each.kind === kind).map(({ metadata }) => metadata.name);
}

function matches(selector: object | undefined, labels: object): boolean {
  const wanted = Object.entries(selector ?? {});
  const found = new Map<string, unknown>(Object.entries(labels));
  return wanted.length > 0 && wanted.every(([name, value]) => found.get(name) === value);
}

/** Returns the containers with a name. */
function containers(manifests: readonly Manifest[], name: string): readonly Container[] {
  return podsOf(manifests)
    .flatMap(({ pod }) => pod.spec.containers)
    .filter((each) => each.name === name);
}

/** Returns the value of a limit of a matchmaker that is started with some arguments. */
function limitOf(args: readonly string[], name: keyof MatchmakerSettings): number {
  const flag = name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
  return Number(option(args, flag) ?? defaultSettings[name]);
}

/** Measured memory of a matchmaker, in bytes. */
const memory = {
  ofProcess: 130_000_000,
  /** A watch of a ticket on a connection of its own. */
  ofCall: 105_000,
  /** The most that its listener buffers (`maxBufferedBytes`). */
  ofBuffers: 80 * 2 ** 20,
};

/** Calls of health and reflection, which have no setting (`maxOpenCalls`). */
const openCalls = 512;

/** Returns the memory that the limits of a matchmaker allow callers to use, in bytes. */
function memoryOf(args: readonly string[]): number {
  const limit = (name: keyof MatchmakerSettings): number => limitOf(args, name);
  const calls = limit("maxWatches") + limit("maxCalls") + limit("reservedCalls") + openCalls;
  const records = limit("maxTicketsBytes") + limit("maxServersBytes");
  return memory.ofProcess + calls * memory.ofCall + memory.ofBuffers + records;
}

/** Estimated memory of a matchmaker for a report, in bytes (`server-budget.ts`). */
const reported = {
  ofServer: 600,
  /** A world with a name and a type of at most 22 characters together. */
  ofWorld: 200 + 2 * 22,
  /** The id of a ticket. */
  ofAgent: 24 + 2 * 36,
};

describe.each(rendered)("%s", (folder, manifests) => {
  it("is valid for Kubernetes' schemas, without unknown fields", async () => {
    const scratch = await mkdtemp(join(tmpdir(), "manifests-"));
    onTestFinished(() => rm(scratch, { recursive: true }));
    const fleets = podsOf(manifests).filter(({ owner }) => owner.kind === "Fleet");
    const pods = fleets.map(({ owner, pod }) => ({
      apiVersion: "v1",
      kind: "Pod",
      ...pod,
      metadata: { ...pod.metadata, name: owner.metadata.name },
    }));
    const standard = manifests.filter(({ kind }) => !(kind in schemas));
    const file = join(scratch, "all.yaml");
    const documents = [...standard, ...pods].map((each) => JSON.stringify(each));
    await writeFile(file, documents.join("\n---\n"));
    for (const version of ["1.33", "1.37"]) {
      const said = await run(join(bin, "kubernetes-validate"), ["--strict", "-k", version, file]);
      expect(said.match(/ passed for resource /g)).toHaveLength(standard.length + pods.length);
    }
  });

  it("is valid for the schemas of Agones", () => {
    for (const manifest of manifests) {
      const schema = schemas[manifest.kind];
      if (schema === undefined) {
        continue;
      }
      const ajv = new Ajv({ allErrors: true, $data: true });
      expect(ajv.validate(schema, manifest) ? [] : ajv.errors).toEqual([]);
    }
    const agones = folder === "agones" ? ["gridworld-server"] : [];
    expect(named(manifests, "Fleet")).toEqual(agones);
    expect(named(manifests, "FleetAutoscaler")).toEqual(agones);
  });

  it("passes valid options and variables to the apps", async () => {
    for (const { pod } of podsOf(manifests)) {
      for (const { name, args = [], env = [] } of pod.spec.containers) {
        if (!ours.includes(name)) {
          continue;
        }
        const help = await appHelp(name);
        for (const arg of args) {
          expect(help).toContain(` ${arg.split("=")[0]} `);
        }
        for (const { name: variable } of env) {
          if (!variable.startsWith("MATCHMAKER_")) {
            continue;
          }
          const flag = variable.slice("MATCHMAKER_".length).toLowerCase().replaceAll("_", "-");
          expect(help).toContain(` --${flag} `);
        }
      }
    }
  });

  it.runIf(folder !== "kubernetes/overlays/development")(
    "gives matchmakers a signing key that is not in Redis",
    () => {
      const found = podsOf(manifests).filter(
        ({ owner }) => owner.metadata.name === "matchmaker-server",
      );
      expect(found).toHaveLength(1);
      for (const { pod } of found) {
        const [container] = pod.spec.containers;
        const file = option(container?.args ?? [], "key") ?? "";
        const mount = container?.volumeMounts?.find(({ mountPath }) => mountPath === dirname(file));
        const volume = pod.spec.volumes?.find(({ name }) => name === mount?.name);
        expect(volume?.secret?.secretName).toBe("join-token-key");
      }
    },
  );

  it("gives every pod time for its drain", () => {
    for (const { pod } of podsOf(manifests)) {
      for (const { name, args = [], lifecycle } of pod.spec.containers) {
        if (name !== "gridworld-server" && name !== "matchmaker-server") {
          continue;
        }
        // A matchmaker needs at most 5 s (apps/matchmaker-server/src/main.ts).
        const drainMs = name === "gridworld-server" ? Number(option(args, "grace-ms")) : 5_000;
        const before = lifecycle?.preStop?.sleep?.seconds ?? 0;
        expect(drainMs).toBeGreaterThan(0);
        expect(pod.spec.terminationGracePeriodSeconds).toBeGreaterThanOrEqual(
          before + drainMs / 1_000 + 10,
        );
      }
    }
  });

  it("refers only to ports that a container listens on", () => {
    const listening = new Map<string, number>();
    for (const { owner, pod } of podsOf(manifests)) {
      for (const { name, args = [], ports = [], ...probes } of pod.spec.containers) {
        const port = option(args, "port");
        if (port === undefined) {
          continue;
        }
        listening.set(name, Number(port));
        const open = owner.kind === "Fleet" ? parsePorts(owner) : ports;
        expect(open.map(({ containerPort }) => containerPort)).toContain(Number(port));
        const grpc = [probes.startupProbe, probes.readinessProbe, probes.livenessProbe]
          .filter((probe) => probe !== undefined)
          .map((probe) => probe.grpc?.port);
        expect(grpc.length).toBeGreaterThanOrEqual(2);
        expect(new Set(grpc)).toEqual(new Set([Number(port)]));
      }
    }
    for (const { kind, metadata, spec } of manifests) {
      if (kind !== "Service") {
        continue;
      }
      const target = podsOf(manifests).filter(({ pod }) =>
        matches(spec?.selector, pod.metadata.labels),
      );
      expect(target, metadata.name).toHaveLength(1);
      const ports = target[0]?.pod.spec.containers.flatMap((container) => container.ports ?? []);
      for (const { targetPort, port } of spec?.ports ?? []) {
        expect(ports?.find(({ name }) => name === targetPort)?.containerPort).toBe(port);
      }
    }
    for (const { pod } of podsOf(manifests)) {
      for (const { args = [] } of pod.spec.containers) {
        const [host = "", port] = option(args, "matchmaker")?.split(":") ?? [];
        if (port === undefined) {
          continue;
        }
        expect(named(manifests, "Service")).toContain(host);
        expect(listening.get(host)).toBe(Number(port));
      }
    }
  });

  it("has Prometheus scrape every pod that serves metrics, at their port", () => {
    let scraped = 0;
    for (const { pod } of podsOf(manifests)) {
      const ports = pod.spec.containers.flatMap(
        ({ args = [] }) => option(args, "metrics-port") ?? [],
      );
      const { annotations = {} } = pod.metadata;
      const isScraped = annotations["prometheus.io/scrape"] === "true";
      expect(isScraped ? [annotations["prometheus.io/port"]] : []).toEqual(ports);
      scraped += ports.length;
    }
    expect(scraped).toBe(2);
  });

  it("selects existing pods, once each", () => {
    const pods = podsOf(manifests);
    const count = (selector: object | undefined): number =>
      pods.filter(({ pod }) => matches(selector, pod.metadata.labels)).length;
    for (const { kind, metadata, spec } of manifests) {
      const label = `${kind} ${metadata.name}`;
      if (kind === "PodDisruptionBudget" || kind === "Deployment" || kind === "StatefulSet") {
        expect(count(spec?.selector?.matchLabels), label).toBe(1);
      }
      if (kind === "NetworkPolicy") {
        expect(count(spec?.podSelector?.matchLabels), label).toBe(1);
      }
      if (kind === "FleetAutoscaler") {
        expect(named(manifests, "Fleet")).toContain(spec?.fleetName);
      }
      if (kind === "HorizontalPodAutoscaler") {
        const { kind: wanted = "", name = "" } = spec?.scaleTargetRef ?? {};
        const target = manifests.find(
          (each) => each.kind === wanted && each.metadata.name === name,
        );
        expect(target, label).toBeDefined();
        // A number of replicas here would override the autoscaler at each apply.
        expect(target?.spec?.replicas, label).toBeUndefined();
      }
    }
    for (const name of [
      "matchmaker-server",
      ...(folder === "agones" ? [] : ["gridworld-server"]),
    ]) {
      expect(named(manifests, "PodDisruptionBudget")).toContain(name);
    }
  });

  it("lets no container run as root, write outside volumes, or use unlimited resources", () => {
    for (const { pod } of podsOf(manifests)) {
      expect(pod.spec.securityContext).toMatchObject({
        runAsNonRoot: true,
        runAsUser: expect.any(Number),
        seccompProfile: { type: "RuntimeDefault" },
      });
      for (const { securityContext, resources } of pod.spec.containers) {
        expect(securityContext).toEqual({
          allowPrivilegeEscalation: false,
          readOnlyRootFilesystem: true,
          capabilities: { drop: ["ALL"] },
        });
        expect(resources).toMatchObject({ requests: expect.anything(), limits: expect.anything() });
      }
    }
  });

  it("gives a matchmaker the memory that its limits allow callers to use", () => {
    const found = containers(manifests, "matchmaker-server");
    expect(found).toHaveLength(1);
    for (const { args = [], resources } of found) {
      expect(bytesOf(resources?.limits?.memory)).toBeGreaterThanOrEqual(memoryOf(args));
    }
  });

  it("lets every server of the fleet register, also after a restart, and report all that it may have", () => {
    const [matchmaker] = containers(manifests, "matchmaker-server");
    const args = matchmaker?.args ?? [];
    const servers = limitOf(args, "maxServers");
    const autoscalers = manifests.filter(({ kind }) => kind.endsWith("Autoscaler"));
    expect(autoscalers).toHaveLength(1);
    for (const { spec } of autoscalers) {
      const most = spec?.maxReplicas ?? spec?.policy?.buffer?.maxReplicas;
      expect(most).toBeGreaterThan(0);
      expect(servers).toBeGreaterThanOrEqual(2 * (most ?? 0));
    }
    const found = containers(manifests, "gridworld-server");
    expect(found).toHaveLength(1);
    for (const { args: own = [] } of found) {
      const worlds = Number(option(own, "max-worlds")) * reported.ofWorld;
      const agents = Number(option(own, "max-agents")) * reported.ofAgent;
      const share = limitOf(args, "maxServersBytes") / servers;
      expect(share).toBeGreaterThanOrEqual(reported.ofServer + worlds + agents);
    }
  });

  it("lets Redis refuse writes, rather than evict keys or be killed, when its memory is full", () => {
    const found = containers(manifests, "redis");
    expect(found).toHaveLength(1);
    for (const { args = [], resources } of found) {
      expect(argument(args, "maxmemory-policy")).toBe("noeviction");
      // A rewrite of the append-only file may copy every page.
      const most = bytesOf(argument(args, "maxmemory"));
      expect(bytesOf(resources?.limits?.memory)).toBeGreaterThanOrEqual(2 * most);
    }
  });

  it("refers to existing configuration and secrets, or to those that the README creates", async () => {
    const readme = await readFile(join(deploy, "README.md"), "utf8");
    const secrets = new Set(named(manifests, "Secret"));
    if (folder !== "kubernetes/overlays/development") {
      expect(secrets.size).toBe(0);
      for (const [, name = ""] of readme.matchAll(/create secret generic (\S+)/g)) {
        secrets.add(name);
      }
    }
    for (const { pod } of podsOf(manifests)) {
      for (const { secret, configMap } of pod.spec.volumes ?? []) {
        if (secret !== undefined) {
          expect(secrets).toContain(secret.secretName);
        }
        if (configMap !== undefined) {
          expect(named(manifests, "ConfigMap")).toContain(configMap.name);
        }
      }
      for (const { env = [] } of pod.spec.containers) {
        for (const { valueFrom } of env) {
          const name = valueFrom?.secretKeyRef?.name;
          if (name !== undefined) {
            expect(secrets).toContain(name);
          }
        }
      }
    }
  });

  it("gives only pods that call the Kubernetes API a token for it, with the rights that they need", () => {
    const accounts = podsOf(manifests).flatMap(({ owner, pod }) => {
      const { serviceAccountName, automountServiceAccountToken } = pod.spec;
      // Agones sets the account of a GameServer.
      if (owner.kind === "Fleet") {
        return [];
      }
      expect(automountServiceAccountToken, owner.metadata.name).toBe(
        serviceAccountName !== undefined,
      );
      return serviceAccountName ?? [];
    });
    expect(accounts).toEqual(folder === "agones" ? ["matchmaker-server"] : []);
    expect(named(manifests, "ServiceAccount")).toEqual(accounts);
    const [binding, ...others] = manifests.filter(({ kind }) => kind === "RoleBinding");
    expect(others).toEqual([]);
    if (folder !== "agones") {
      expect(binding).toBeUndefined();
      return;
    }
    const [namespace] = named(manifests, "Namespace");
    expect(binding?.subjects).toEqual([
      { kind: "ServiceAccount", name: "matchmaker-server", namespace },
    ]);
    const role = manifests.find(
      ({ kind, metadata }) =>
        kind === binding?.roleRef?.kind && metadata.name === binding.roleRef.name,
    );
    expect(role?.rules).toEqual([
      {
        apiGroups: ["allocation.agones.dev"],
        resources: ["gameserverallocations"],
        verbs: ["create"],
      },
    ]);
    const matchmaker = podsOf(manifests).find(({ owner }) => owner.metadata.name === accounts[0]);
    const variable = matchmaker?.pod.spec.containers[0]?.env?.find(
      ({ name }) => name === "MATCHMAKER_AGONES_NAMESPACE",
    );
    expect(variable?.valueFrom?.fieldRef?.fieldPath).toBe("metadata.namespace");
  });

  it("puts everything into one namespace and pins the version of every image", () => {
    const [namespace] = named(manifests, "Namespace");
    for (const { kind, metadata } of manifests) {
      if (kind !== "Namespace") {
        expect(metadata.namespace, metadata.name).toBe(namespace);
      }
    }
    for (const { pod } of podsOf(manifests)) {
      for (const { image } of pod.spec.containers) {
        expect(image).toMatch(/:(?!latest$)[\w.-]+$/);
      }
    }
  });
});

function parsePorts(fleet: Manifest): readonly { readonly containerPort?: number }[] {
  const { ports } = (fleet.spec?.template?.spec ?? {}) as NonNullable<Manifest["spec"]>;
  return ports ?? [];
}

it("the README's example of a smaller matchmaker fits in its memory", async () => {
  const readme = await readFile(join(deploy, "README.md"), "utf8");
  const [, size = "", flags = ""] = /: (\d+Gi) is enough for `(--max[^`]+)` \|/.exec(readme) ?? [];
  expect(bytesOf(size)).toBeGreaterThanOrEqual(memoryOf(flags.split(" ")));
});

describe("the manifests", () => {
  it("are all listed in their folder's kustomization", async () => {
    const files = await readdir(deploy, { recursive: true });
    const kustomizations = files.filter((file) => file.endsWith("kustomization.yaml"));
    expect(kustomizations.length).toBe(4);
    for (const file of kustomizations) {
      const folder = dirname(file);
      const text = await readFile(join(deploy, file), "utf8");
      const { resources, configurations = [], configMapGenerator = [] } = parse(text);
      const listed = [
        ...resources,
        ...configurations,
        ...configMapGenerator.flatMap(({ files: each }: { files: string[] }) => each),
      ].filter((path: string) => !path.startsWith("../"));
      const there = (await readdir(join(deploy, folder))).filter(
        (entry) => entry !== "kustomization.yaml",
      );
      expect(listed.sort(), folder).toEqual(there.sort());
    }
  });

  it.each(["gridworld-server", "matchmaker-server"])(
    "ask %s for the health of services that it has",
    async (app) => {
      const main = join(root, "apps", app, "dist/main.js");
      await using server = new Program(process.execPath, [main, "--port", "0"]);
      const url = await server.says(/^listening on (\S+)$/m);
      const services = new Set<string>();
      for (const [, manifests] of rendered) {
        for (const { pod } of podsOf(manifests)) {
          for (const { name, startupProbe, readinessProbe, livenessProbe } of pod.spec.containers) {
            if (name !== app) {
              continue;
            }
            for (const probe of [startupProbe, readinessProbe, livenessProbe]) {
              if (probe?.grpc !== undefined) {
                services.add(probe.grpc.service ?? "");
              }
            }
          }
        }
      }
      expect(services.size).toBe(2);
      for (const service of services) {
        await run(process.execPath, [join(deploy, "docker/health.ts"), url, service]);
      }
      const none = run(process.execPath, [join(deploy, "docker/health.ts"), url, "none"]);
      await expect(none).rejects.toThrow(/refused the health check: .* received 5/);
    },
  );

  it("have profiles that the matchmaker accepts", async () => {
    const file = join(deploy, "kubernetes/base/profiles.json");
    const main = join(root, "apps/matchmaker-server/dist/main.js");
    await using server = new Program(process.execPath, [main, "--port", "0", "--profiles", file]);
    await server.says(/^listening on (\S+)$/m);
    expect(await server.stop()).toBe(0);
  });
});
