// SPDX-License-Identifier: Apache-2.0
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { Health, HealthCheckResponse_ServingStatus } from "@dm-env-rpc/protocol/health";
import { AdminService, FrontendService, RegistryService } from "@dm-env-rpc/protocol/matchmaker";
import { ServerReflection } from "@dm-env-rpc/protocol/reflection";
import { hasRedis, Program, RedisServer, sayWhetherRedis } from "@dm-env-rpc/tests-processes";
import { describe, expect, it } from "vitest";
import { serveCounting } from "../../../packages/matchmaker/testing/world-server.ts";
import { makeCertificates, opensslMissing } from "../../../packages/server/testing/certificates.ts";
import {
  healthOfNothing,
  seventeenthReflection,
} from "../../../packages/server/testing/open-services.ts";

const main = fileURLToPath(new URL("../dist/main.js", import.meta.url));
const oneLine = /^[^\n]+\n$/;

/** Creates a folder of files for one test. */
async function filesIn(
  files: Readonly<Record<string, string>>,
): Promise<AsyncDisposable & { at(name: string): string }> {
  const folder = await mkdtemp(join(tmpdir(), "matchmaker-server-"));
  for (const [name, text] of Object.entries(files)) {
    await writeFile(join(folder, name), text);
  }
  return {
    at: (name) => join(folder, name),
    [Symbol.asyncDispose]: () => rm(folder, { recursive: true }),
  };
}

sayWhetherRedis();

const noOpenssl = opensslMissing();
if (noOpenssl !== undefined) {
  process.stderr.write(`skipped, mTLS: ${noOpenssl}\n`);
}

function start(args: readonly string[], env: Readonly<Record<string, string>> = {}): Program {
  return new Program(process.execPath, [main, ...args], { env: { ...process.env, ...env } });
}

describe("matchmaker-server", () => {
  it.each(["SIGTERM", "SIGINT"] as const)(
    "serves, and exits cleanly on %s while a watch is open",
    async (signal) => {
      await using program = start(["--port", "0"]);
      const baseUrl = await program.says(/^listening on (http:\/\/\S+)\n/);
      const transport = createGrpcTransport({ baseUrl });
      const health = createClient(Health, transport);
      const { status } = await health.check({ service: "matchmaker.v1.FrontendService" });
      expect(status).toBe(HealthCheckResponse_ServingStatus.SERVING);
      const frontend = createClient(FrontendService, transport);
      const { ticket } = await frontend.createTicket({});
      const watch = frontend.watchTicket({ ticketId: ticket?.id ?? "" })[Symbol.asyncIterator]();
      await watch.next();
      program.process.kill(signal);
      expect(await program.ended).toBe(0);
      await watch.next().catch(() => {});
    },
  );

  it.skipIf(!hasRedis)(
    "reports its services as not serving while Redis does not answer, and the process as serving",
    async () => {
      await using redis = await RedisServer.start();
      await using program = start(["--port", "0", "--redis", redis.url]);
      const baseUrl = await program.says(/^listening on (\S+)\n/);
      const health = createClient(Health, createGrpcTransport({ baseUrl }));
      const status = async (service: string) => (await health.check({ service })).status;
      const services = [FrontendService, RegistryService, AdminService];
      const statuses = () => Promise.all(services.map(({ typeName }) => status(typeName)));
      const { SERVING, NOT_SERVING } = HealthCheckResponse_ServingStatus;
      await expect.poll(statuses).toEqual([SERVING, SERVING, SERVING]);
      await redis.kill();
      await expect.poll(statuses).toEqual([NOT_SERVING, NOT_SERVING, NOT_SERVING]);
      expect(await status("")).toBe(SERVING);
      await redis.start();
      await expect.poll(statuses).toEqual([SERVING, SERVING, SERVING]);
    },
  );

  it.skipIf(!hasRedis)(
    "reports that its services do not serve and that it does not lead while Redis is frozen",
    async () => {
      await using redis = await RedisServer.start();
      await using program = start(["--port", "0", "--metrics-port", "0", "--redis", redis.url]);
      const baseUrl = await program.says(/^listening on (\S+)\n/);
      const metrics = await program.says(/^metrics at (\S+)\n/m);
      const health = createClient(Health, createGrpcTransport({ baseUrl }));
      const serving = async (service: string) =>
        (await health.check({ service })).status === HealthCheckResponse_ServingStatus.SERVING;
      const reported = async () => {
        const text = await (await fetch(metrics)).text();
        return {
          frontend: await serving(FrontendService.typeName),
          leading: text.includes("\ndm_env_rpc_matchmaker_leading 1\n"),
          ready: text.includes("\ndm_env_rpc_matchmaker_ready 1\n"),
        };
      };
      const well = { frontend: true, leading: true, ready: true };
      await expect.poll(reported).toEqual(well);
      // Its connections stay open, but it answers nothing.
      redis.freeze();
      await expect.poll(reported).toEqual({ frontend: false, leading: false, ready: false });
      expect(await serving("")).toBe(true);
      redis.thaw();
      await expect.poll(reported).toEqual(well);
    },
  );

  it.skipIf(!hasRedis || noOpenssl !== undefined)(
    "verifies Redis by its authority, and presents the certificate for clients to it",
    async () => {
      const [own, publicly] = [makeCertificates(), makeCertificates()];
      await using files = await filesIn({
        ca: own.authority,
        cert: own.server.cert,
        key: own.server.key,
        "client-cert": own.operator.cert,
        "client-key": own.operator.key,
        "public-cert": publicly.server.cert,
        "public-key": publicly.server.key,
      });
      await using redis = await RedisServer.start({
        flags: (port) => [
          ...["--port", "0", "--tls-port", String(port), "--tls-auth-clients", "yes"],
          ...["--tls-cert-file", files.at("cert"), "--tls-key-file", files.at("key")],
          ...["--tls-ca-cert-file", files.at("ca")],
        ],
      });
      const listen = ["--tls-cert", files.at("public-cert"), "--tls-key", files.at("public-key")];
      const url = redis.url.replace("redis:", "rediss:");
      const args = ["--port", "0", ...listen, "--redis", url, "--ca", files.at("ca")];
      await using refused = start(args);
      expect(await refused.ended).toBe(1);
      expect(refused.stderr).toMatch(/^Redis at rediss:\S+ does not answer: .*alert/);
      await using program = start([
        ...args,
        ...["--client-cert", files.at("client-cert"), "--client-key", files.at("client-key")],
      ]);
      await program.says(/^listening on (https:\/\/\S+)\n/);
    },
  );

  it("reads profiles from a file and flags from the environment, and serves metrics", async () => {
    const profile = {
      name: "four",
      pools: [{ name: "all" }],
      matchFunction: { byCount: { count: 4 } },
      worldType: "gridworld",
    };
    await using files = await filesIn({ "profiles.json": JSON.stringify([profile]) });
    await using program = start(["--port", "0", "--profiles", files.at("profiles.json")], {
      MATCHMAKER_METRICS_PORT: "0",
      MATCHMAKER_LOG_LEVEL: "silent",
    });
    const baseUrl = await program.says(/^listening on (\S+)\n/);
    const admin = createClient(AdminService, createGrpcTransport({ baseUrl }));
    const { profiles } = await admin.listProfiles({});
    expect(profiles.map(({ name }) => name)).toEqual(["four"]);
    const metrics = await fetch(await program.says(/^metrics at (\S+)\n/m));
    const text = await metrics.text();
    expect(text).toContain('dm_env_rpc_matchmaker_tickets{state="waiting"} 0\n');
    expect(text).toContain("dm_env_rpc_matchmaker_tick_seconds_bucket");
    expect(program.stderr).toBe("");
  });

  it("counts refused calls, and logs at most five of them for each reason", async () => {
    await using files = await filesIn({ token: "open-sesame\n" });
    await using program = start([
      ...["--port", "0", "--metrics-port", "0"],
      ...["--operator-token", files.at("token"), "--max-tickets-per-caller", "1"],
    ]);
    const transport = createGrpcTransport({ baseUrl: await program.says(/^listening on (\S+)\n/) });
    const [admin, frontend] = [
      createClient(AdminService, transport),
      createClient(FrontendService, transport),
    ];
    const sinceMs = performance.now();
    for (let call = 0; call < 8; call++) {
      await expect(admin.listServers({})).rejects.toThrow(/permission_denied/);
    }
    const periods = 1 + Math.floor((performance.now() - sinceMs) / 10_000);
    await frontend.createTicket({ ticketSecret: "mine" });
    await expect(frontend.createTicket({ ticketSecret: "mine" })).rejects.toThrow(
      /maxTicketsPerCaller/,
    );
    const metrics = await fetch(await program.says(/^metrics at (\S+)\n/m));
    const text = await metrics.text();
    const name = "dm_env_rpc_matchmaker_refused_total";
    expect(text).toContain(`${name}{reason="PERMISSION_DENIED"} 8\n`);
    expect(text).toContain(`${name}{reason="maxTicketsPerCaller"} 1\n`);
    program.process.kill();
    await program.ended;
    const lines = program.stderr.split("\n").filter((line) => line.includes('"call-refused"'));
    const reasons = lines.map((line) => JSON.parse(line).reason);
    expect(reasons.splice(-1)).toEqual(["maxTicketsPerCaller"]);
    expect(new Set(reasons)).toEqual(new Set(["PERMISSION_DENIED"]));
    expect(reasons.length).toBeGreaterThanOrEqual(5);
    expect(reasons.length).toBeLessThanOrEqual(5 * periods);
    // When it stops, it reports the lines that it has skipped.
    const skips = program.stderr.split("\n").filter((line) => line.includes("lines were skipped"));
    const skipped = skips.reduce((sum, line) => sum + JSON.parse(line).lines, 0);
    expect(reasons.length + skipped).toBe(8);
  });

  it("reflects its services", async () => {
    await using program = start(["--port", "0"]);
    const baseUrl = await program.says(/^listening on (\S+)\n/);
    const reflection = createClient(ServerReflection, createGrpcTransport({ baseUrl }));
    async function* questions() {
      yield { messageRequest: { case: "listServices", value: "" } } as const;
    }
    for await (const { messageResponse } of reflection.serverReflectionInfo(questions())) {
      if (messageResponse.case !== "listServicesResponse") {
        throw new Error("a list was expected");
      }
      const names = messageResponse.value.service.map(({ name }) => name);
      expect(names).toEqual(
        expect.arrayContaining([
          FrontendService.typeName,
          RegistryService.typeName,
          AdminService.typeName,
        ]),
      );
    }
  });

  it("answers health checks as bytes, and sixteen calls of reflection at a time from one address", async () => {
    await using program = start(["--port", "0"]);
    const baseUrl = await program.says(/^listening on (\S+)\n/);
    expect(await healthOfNothing(baseUrl)).toMatch(/^request malformed: expected one message/);
    await expect(seventeenthReflection(baseUrl)).rejects.toThrow(
      /\[resource_exhausted\] too many calls of/,
    );
  });

  it("lets a caller with the server token register servers, but do nothing else", async () => {
    await using files = await filesIn({ operator: "open-sesame\n", server: "let-me-serve\n" });
    await using program = start([
      ...["--port", "0", "--server-lease-ms", "7000"],
      ...["--operator-token", files.at("operator"), "--server-token", files.at("server")],
    ]);
    const transport = createGrpcTransport({ baseUrl: await program.says(/^listening on (\S+)\n/) });
    const as = (token: string) => ({ headers: { authorization: `Bearer ${token}` } });
    const admin = createClient(AdminService, transport);
    const registry = createClient(RegistryService, transport);
    for (const token of ["let-me-serve", "open-sesame"]) {
      await expect(registry.drainServer({ serverId: "a" }, as(token))).rejects.toThrow(/not_found/);
    }
    await expect(registry.drainServer({ serverId: "a" }, as("open-barley"))).rejects.toThrow(
      /permission_denied/,
    );
    await expect(admin.listProfiles({}, as("let-me-serve"))).rejects.toThrow(/permission_denied/);
    await admin.listProfiles({}, as("open-sesame"));
  });

  it("gives each named token of servers its own servers and limits", async () => {
    await using files = await filesIn({ servers: "red r3d-t0ken\nblue blu3-t0ken\n" });
    await using program = start([
      ...["--port", "0", "--server-tokens", files.at("servers"), "--max-servers-per-caller", "1"],
    ]);
    const baseUrl = await program.says(/^listening on (\S+)\n/);
    const registry = createClient(RegistryService, createGrpcTransport({ baseUrl }));
    await using first = await serveCounting(baseUrl, { token: "r3d-t0ken" });
    const { registered, serverId } = first.registration;
    await registered;
    const as = (token: string) => ({ headers: { authorization: `Bearer ${token}` } });
    const another = {
      serverId: "another",
      address: "127.0.0.1:1",
      capacity: { maxWorlds: 1, maxAgents: 1 },
      worldTypes: ["gridworld"],
    };
    for (const [token, refusal] of [
      ["r3d-t0ken", /\[resource_exhausted\].*limit: maxServersPerCaller/],
      ["blu3-t0ken", /\[failed_precondition\] expected a dm_env_rpc server at "127\.0\.0\.1:1"/],
      ["gr3y-t0ken", /\[permission_denied\] RegistryService: expected a caller with the role/],
    ] as const) {
      await expect(registry.registerServer(another, as(token))).rejects.toThrow(refusal);
    }
    await expect(registry.drainServer({ serverId }, as("blu3-t0ken"))).rejects.toThrow(
      /\[permission_denied\] server_id: expected the caller that registered server/,
    );
  });

  it.each(["operator", "server"])(
    "listens on every address if it authenticates callers by the %s token",
    async (role) => {
      await using files = await filesIn({ token: "open-sesame\n" });
      await using program = start([
        ...["--host", "0.0.0.0", "--port", "0", "--allow-insecure"],
        ...[`--${role}-token`, files.at("token")],
      ]);
      const port = await program.says(/^listening on http:\/\/0\.0\.0\.0:(\d+)\n/);
      const transport = createGrpcTransport({ baseUrl: `http://127.0.0.1:${port}` });
      await createClient(FrontendService, transport).createTicket({ ticketSecret: "mine" });
      await expect(createClient(AdminService, transport).listProfiles({})).rejects.toThrow(
        /permission_denied/,
      );
    },
  );

  it("lets only callers with the operator token register servers and use the admin service", async () => {
    await using files = await filesIn({ token: "open-sesame\n" });
    await using program = start(["--port", "0", "--operator-token", files.at("token")]);
    const baseUrl = await program.says(/^listening on (\S+)\n/);
    const transport = createGrpcTransport({ baseUrl });
    await createClient(FrontendService, transport).createTicket({ ticketSecret: "mine" });
    const as = (token: string) => ({ headers: { authorization: `Bearer ${token}` } });
    const admin = createClient(AdminService, transport);
    const registry = createClient(RegistryService, transport);
    for (const call of [
      () => admin.listProfiles({}),
      () => admin.listProfiles({}, as("open-barley")),
      () => registry.drainServer({ serverId: "a" }),
      () => admin.watch({})[Symbol.asyncIterator]().next(),
    ]) {
      await expect(call()).rejects.toThrow(
        /\[permission_denied\] (AdminService: expected a caller with the role "operator"|RegistryService: expected a caller with the role "server" or "operator"), received one with the role "agent"/,
      );
    }
    await admin.listProfiles({}, as("open-sesame"));
    await expect(registry.drainServer({ serverId: "a" }, as("open-sesame"))).rejects.toThrow(
      /not_found/,
    );
  });

  it.skipIf(noOpenssl !== undefined)(
    "lets only callers with an operator's certificate register servers and use the admin service",
    async () => {
      const { authority, server, operator } = makeCertificates();
      await using files = await filesIn({ ca: authority, cert: server.cert, key: server.key });
      const tls = ["--tls-cert", files.at("cert"), "--tls-key", files.at("key")];
      await using program = start(["--port", "0", ...tls, "--operator-ca", files.at("ca")]);
      const baseUrl = await program.says(/^listening on (https:\/\/\S+)\n/);
      const anybody = createGrpcTransport({ baseUrl, nodeOptions: { ca: authority } });
      await createClient(FrontendService, anybody).createTicket({ ticketSecret: "mine" });
      await expect(createClient(AdminService, anybody).listProfiles({})).rejects.toThrow(
        /permission_denied/,
      );
      const { cert, key } = operator;
      const known = createGrpcTransport({ baseUrl, nodeOptions: { ca: authority, cert, key } });
      await createClient(AdminService, known).listProfiles({});
    },
  );

  it("identifies each agent by its token and refuses callers without one", async () => {
    await using files = await filesIn({
      agents: "# those who play\nalice red-herring\n\nbob blue-whale\n",
      server: "let-me-serve\n",
    });
    await using program = start([
      ...["--port", "0", "--agent-tokens", files.at("agents")],
      ...["--server-token", files.at("server")],
    ]);
    const transport = createGrpcTransport({ baseUrl: await program.says(/^listening on (\S+)\n/) });
    const as = (token: string) => ({ headers: { authorization: `Bearer ${token}` } });
    const frontend = createClient(FrontendService, transport);
    await frontend.createTicket({ ticketId: "hers" }, as("red-herring"));
    await frontend.getTicket({ ticketId: "hers" }, as("red-herring"));
    await expect(frontend.getTicket({ ticketId: "hers" }, as("blue-whale"))).rejects.toThrow(
      /not_found/,
    );
    await expect(frontend.createTicket({}, as("white-shark"))).rejects.toThrow(/unauthenticated/);
    await expect(frontend.createTicket({})).rejects.toThrow(/unauthenticated/);
    await expect(frontend.createTicket({}, as("let-me-serve"))).rejects.toThrow(
      /permission_denied/,
    );
    const admin = createClient(AdminService, transport);
    await expect(admin.listTickets({}, as("red-herring"))).rejects.toThrow(/permission_denied/);
  });

  it.skipIf(noOpenssl !== undefined)(
    "recognizes operators, servers and agents by the authorities of their certificates",
    async () => {
      const [operators, servers, agents] = [
        makeCertificates(),
        makeCertificates(),
        makeCertificates(),
      ];
      await using files = await filesIn({
        operators: operators.authority,
        servers: servers.authority,
        agents: agents.authority,
        cert: operators.server.cert,
        key: operators.server.key,
      });
      await using program = start([
        ...["--port", "0", "--tls-cert", files.at("cert"), "--tls-key", files.at("key")],
        ...["--operator-ca", files.at("operators"), "--server-ca", files.at("servers")],
        ...["--agent-ca", files.at("agents")],
      ]);
      const baseUrl = await program.says(/^listening on (https:\/\/\S+)\n/);
      const as = (pair?: { readonly cert: string; readonly key: string }) => {
        const transport = createGrpcTransport({
          baseUrl,
          nodeOptions: { ca: operators.authority, ...pair },
        });
        const frontend = createClient(FrontendService, transport);
        const registry = createClient(RegistryService, transport);
        const admin = createClient(AdminService, transport);
        return Promise.all(
          [
            frontend.getTicket({ ticketId: "none" }),
            registry.drainServer({ serverId: "none" }),
            admin.getProfile({ name: "none" }),
          ].map((call) => call.catch((error: unknown) => /\[(\w+)\]/.exec(String(error))?.[1])),
        );
      };
      const [denied, missing] = ["permission_denied", "not_found"];
      expect(await as(operators.operator)).toEqual([missing, missing, missing]);
      expect(await as(servers.agent)).toEqual([denied, missing, denied]);
      expect(await as(agents.agent)).toEqual([missing, denied, denied]);
      const unknown = "unauthenticated";
      expect(await as()).toEqual([unknown, unknown, unknown]);
      expect(await as(makeCertificates().operator)).toEqual([unknown, unknown, unknown]);
    },
  );

  it.each([
    [["--port", "eighty"], /--port.*eighty/],
    [["--prot", "1"], /--prot/],
    [["--host", "0.0.0.0", "--port", "0"], /^--host 0\.0\.0\.0 .*--tls-key, or --allow-insecure/],
    [
      ["--host", "0.0.0.0", "--port", "0", "--allow-insecure"],
      /^--host 0\.0\.0\.0 .*expected --operator-token, --operator-ca, --server-token, --server-tokens or --server-ca, received none of them/,
    ],
    [["--log-level", "loud"], /--log-level.*loud/],
    [["--profiles", "/no/such/file"], /\/no\/such\/file/],
    [["--key", main], /Ed25519/],
    [["--tls-cert", "only.pem"], /--tls-key/],
    [["--client-key", "only.pem"], /--client-cert and --client-key: .*only --client-key/],
    [["--operator-token", "/no/such/token"], /\/no\/such\/token/],
    [["--operator-ca", "ca.pem"], /--operator-ca.*--tls-cert/],
    [["--server-token", "/no/such/token"], /\/no\/such\/token/],
    [["--server-ca", "ca.pem"], /--server-ca.*--tls-cert/],
    [["--agent-ca", "ca.pem"], /--agent-ca.*--tls-cert/],
    [["--agent-tokens", main], /main\.js: line \d+: expected a name and a token/],
    [["--server-tokens", main], /main\.js: line \d+: expected a name and a token/],
    [["--server-lease-ms", "soon"], /--server-lease-ms: expected a number, received "soon"/],
    [["--max-tickets", "0"], /maxTickets/],
    [["--kubernetes-url", "https://k"], /--kubernetes-url: expected with --agones-namespace/],
    [
      ["--agones-namespace", "games", "--kubernetes-account", "/no/such"],
      /--kubernetes-account: expected a folder with the token of a service account, received "\/no\/such"/,
    ],
    [["--redis", "redis://127.0.0.1:1"], /Redis at redis:\/\/127\.0\.0\.1:1.*ECONNREFUSED/],
  ])("names the mistake in %j in one line", async (args, message) => {
    await using program = start(args);
    expect(await program.ended).toBe(1);
    expect(program.stderr).toMatch(oneLine);
    expect(program.stderr).toMatch(message);
    expect(program.stdout).toBe("");
  });

  it("prints its flags and its version", async () => {
    await using help = start(["--help"]);
    await using version = start(["--version"]);
    expect(await help.ended).toBe(0);
    expect(help.stdout).toMatch(/--redis URL/);
    expect(await version.ended).toBe(0);
    expect(version.stdout).toMatch(/^\d+\.\d+\.\d+\n$/);
  });
});
