// SPDX-License-Identifier: Apache-2.0
import { type ParseArgsConfig, parseArgs } from "node:util";
import { defaultSettings, type MatchmakerSettings } from "@dm-env-rpc/matchmaker";
import { isLoopback } from "@dm-env-rpc/transport";

/** Options from the command line and the environment. */
export interface Flags {
  readonly host: string;
  readonly port: number;
  readonly allowInsecure: boolean;
  readonly allowedOrigins: readonly string[];
  readonly page: boolean;
  readonly tlsCert: string | undefined;
  readonly tlsKey: string | undefined;
  readonly ca: string | undefined;
  readonly clientCert: string | undefined;
  readonly clientKey: string | undefined;
  readonly operatorToken: string | undefined;
  readonly operatorCa: string | undefined;
  readonly serverToken: string | undefined;
  readonly serverTokens: string | undefined;
  readonly serverCa: string | undefined;
  readonly agentTokens: string | undefined;
  readonly agentCa: string | undefined;
  readonly settings: Partial<MatchmakerSettings>;
  readonly redis: string | undefined;
  readonly redisPrefix: string | undefined;
  readonly profiles: string | undefined;
  readonly key: string | undefined;
  readonly agonesNamespace: string | undefined;
  readonly kubernetesUrl: string;
  readonly kubernetesAccount: string;
  readonly metricsPort: number | undefined;
  readonly logLevel: (typeof logLevels)[number];
  readonly show: "help" | "version" | undefined;
}

type Setting = keyof MatchmakerSettings;

/** Flags of a matchmaker's settings. */
const settingFlags: ReadonlyMap<Setting, string> = new Map(
  (Object.keys(defaultSettings) as Setting[]).map((name) => [
    name,
    name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`),
  ]),
);

/** Address and service account with which a pod reaches the Kubernetes API. */
const inCluster = {
  url: "https://kubernetes.default.svc",
  account: "/var/run/secrets/kubernetes.io/serviceaccount",
} as const;

/** Flags that authenticate operators or servers. Agents may be anonymous. */
const managers = ["operator-token", "operator-ca", "server-token", "server-tokens", "server-ca"];

const logLevels = ["fatal", "error", "warn", "info", "debug", "trace", "silent"] as const;

/** Text of `--help`. */
export const help = `Matches agents for dm_env_rpc, and creates worlds for them on the servers that register.

usage: dm-env-rpc-matchmaker-server [options]

  --host ADDRESS         address to listen on (127.0.0.1)
  --port N               port to listen on; 0 picks one (8990)
  --allow-insecure       allow a host other than loopback without TLS; others can then read the traffic
  --allow-origins LIST   origins of pages that may call the matchmaker, separated by commas; * for all (none)
  --page                 serve a page at the same address, on which operators see and drain the fleet
  --tls-cert FILE        certificate to serve TLS with, as PEM
  --tls-key FILE         its key
  --ca FILE              authority of the certificates of environment servers and Redis, as PEM
  --client-cert FILE     certificate to present to environment servers and Redis, as PEM (that of --tls-cert)
  --client-key FILE      its key
  --operator-token FILE  token of operators, which may do everything; if no token and no authority is
                         given at all, every client may do everything. A host other than loopback needs
                         a token or an authority of operators or servers
  --operator-ca FILE     authority of operators' certificates, as PEM; with --tls-cert
  --server-token FILE    token of servers, which may register
  --server-tokens FILE   a name and a token on each line; a server belongs to the name with whose token
                         it registers, and each name has its own limits
  --server-ca FILE       authority of servers' certificates, as PEM; with --tls-cert
  --agent-tokens FILE    a name and a token on each line; only clients with one of the tokens, or a
                         certificate of --agent-ca, may request matches (all clients)
  --agent-ca FILE        authority of agents' certificates, as PEM; with --tls-cert
  --redis URL            Redis 7 or later that keeps the state, for several matchmakers; rediss:// for TLS
                         (in memory)
  --redis-prefix TEXT    prefix of the keys in Redis ({matchmaker}:)
  --profiles FILE        match profiles to start with: a JSON list
  --key FILE             Ed25519 key that join tokens are signed with, as PEM (a new
                         one, stored with the state)
  --agones-namespace NAME
                         namespace of the Agones fleet: servers that register with the name of
                         their GameServer are allocated before they get worlds (no Agones)
  --kubernetes-url URL   Kubernetes API that Agones is reached through
                         (${inCluster.url})
  --kubernetes-account FOLDER
                         folder with the token and the ca.crt of the service account
                         (${inCluster.account})
  --metrics-port N       port for Prometheus metrics at /metrics; 0 picks one (no metrics)
  --log-level LEVEL      ${logLevels.join(", ")} (info)
  --help, --version

Times and limits, each with its default; -ms is milliseconds:

${[...settingFlags].map(([name, flag]) => `  --${flag} N`.padEnd(32) + defaultSettings[name]).join("\n")}

Each flag may also be set in the environment: --redis-prefix as MATCHMAKER_REDIS_PREFIX.
`;

const options = {
  host: { type: "string" },
  port: { type: "string" },
  "allow-insecure": { type: "boolean" },
  "allow-origins": { type: "string" },
  page: { type: "boolean" },
  "tls-cert": { type: "string" },
  "tls-key": { type: "string" },
  ca: { type: "string" },
  "client-cert": { type: "string" },
  "client-key": { type: "string" },
  "operator-token": { type: "string" },
  "operator-ca": { type: "string" },
  "server-token": { type: "string" },
  "server-tokens": { type: "string" },
  "server-ca": { type: "string" },
  "agent-tokens": { type: "string" },
  "agent-ca": { type: "string" },
  ...Object.fromEntries([...settingFlags.values()].map((flag) => [flag, { type: "string" }])),
  redis: { type: "string" },
  "redis-prefix": { type: "string" },
  profiles: { type: "string" },
  key: { type: "string" },
  "agones-namespace": { type: "string" },
  "kubernetes-url": { type: "string" },
  "kubernetes-account": { type: "string" },
  "metrics-port": { type: "string" },
  "log-level": { type: "string" },
  help: { type: "boolean" },
  version: { type: "boolean" },
} as const satisfies ParseArgsConfig["options"];

/** @throws Error if a flag is not a number; the matchmaker itself checks the range. */
function readSettings(text: (flag: string) => string | undefined): Partial<MatchmakerSettings> {
  const settings: { -readonly [K in Setting]?: number } = {};
  for (const [name, flag] of settingFlags) {
    const given = text(flag);
    if (given === undefined) {
      continue;
    }
    if (!/^\d+$/.test(given)) {
      throw new Error(`--${flag}: expected a number, received "${given}"; see --help`);
    }
    settings[name] = Number(given);
  }
  return settings;
}

/**
 * Parses the command line, with the environment as the fallback.
 *
 * @throws Error that names the flag, the expected value and the received one.
 */
export function readFlags(
  args: readonly string[],
  environment: Readonly<Record<string, string | undefined>>,
): Flags {
  const { values } = parseArgs({ args: [...args], options });
  const flags = new Map<string, unknown>(Object.entries(values));
  const text = (flag: string): string | undefined => {
    const given = flags.get(flag);
    if (typeof given === "string") {
      return given;
    }
    const named = environment[`MATCHMAKER_${flag.toUpperCase().replaceAll("-", "_")}`];
    return named === "" ? undefined : named;
  };
  const port = (flag: "port" | "metrics-port"): number | undefined => {
    const given = text(flag);
    if (given === undefined) {
      return undefined;
    }
    const value = /^\d+$/.test(given) ? Number(given) : Number.NaN;
    if (value <= 65_535) {
      return value;
    }
    throw new Error(
      `--${flag}: expected an integer from 0 to 65535, received "${given}"; see --help`,
    );
  };
  const pair = (cert: string, key: string): readonly [string | undefined, string | undefined] => {
    const [certFile, keyFile] = [text(cert), text(key)];
    if ((certFile === undefined) !== (keyFile === undefined)) {
      throw new Error(
        `--${cert} and --${key}: expected both, received only --${certFile === undefined ? key : cert}; see --help`,
      );
    }
    return [certFile, keyFile];
  };
  const tls = pair("tls-cert", "tls-key");
  const client = pair("client-cert", "client-key");
  for (const flag of ["operator-ca", "server-ca", "agent-ca"]) {
    if (text(flag) !== undefined && tls[0] === undefined) {
      throw new Error(
        `--${flag}: expected with --tls-cert and --tls-key, received without them; see --help`,
      );
    }
  }
  const agonesNamespace = text("agones-namespace");
  for (const flag of ["kubernetes-url", "kubernetes-account"]) {
    if (text(flag) !== undefined && agonesNamespace === undefined) {
      throw new Error(
        `--${flag}: expected with --agones-namespace, received without it; see --help`,
      );
    }
  }
  const logLevel = text("log-level") ?? "info";
  const level = logLevels.find((known) => known === logLevel);
  if (level === undefined) {
    throw new Error(
      `--log-level: expected one of ${logLevels.join(", ")}, received "${logLevel}"; see --help`,
    );
  }
  const isSet = (flag: "allow-insecure" | "page"): boolean => {
    const given = values[flag] ?? text(flag);
    return given === true || given === "true" || given === "1";
  };
  const allowInsecure = isSet("allow-insecure");
  const host = text("host") ?? "127.0.0.1";
  if (tls[0] === undefined && !allowInsecure && !isLoopback(host)) {
    throw new Error(
      `--host ${host} is not a loopback address: expected --tls-cert and --tls-key, or --allow-insecure if the network can be trusted; see --help`,
    );
  }
  if (!isLoopback(host) && managers.every((flag) => text(flag) === undefined)) {
    throw new Error(
      `--host ${host} is not a loopback address: expected --operator-token, --operator-ca, --server-token, --server-tokens or --server-ca, received none of them; the matchmaker recognizes operators and servers by these; see --help`,
    );
  }
  return {
    host,
    port: port("port") ?? 8990,
    allowInsecure,
    allowedOrigins: (text("allow-origins") ?? "").split(",").filter((origin) => origin !== ""),
    page: isSet("page"),
    tlsCert: tls[0],
    tlsKey: tls[1],
    ca: text("ca"),
    clientCert: client[0] ?? tls[0],
    clientKey: client[1] ?? tls[1],
    operatorToken: text("operator-token"),
    operatorCa: text("operator-ca"),
    serverToken: text("server-token"),
    serverTokens: text("server-tokens"),
    serverCa: text("server-ca"),
    agentTokens: text("agent-tokens"),
    agentCa: text("agent-ca"),
    settings: readSettings(text),
    redis: text("redis"),
    redisPrefix: text("redis-prefix"),
    profiles: text("profiles"),
    key: text("key"),
    agonesNamespace,
    kubernetesUrl: text("kubernetes-url") ?? inCluster.url,
    kubernetesAccount: text("kubernetes-account") ?? inCluster.account,
    metricsPort: port("metrics-port"),
    logLevel: level,
    show: values.help === true ? "help" : values.version === true ? "version" : undefined,
  };
}
