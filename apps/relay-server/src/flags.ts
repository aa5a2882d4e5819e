// SPDX-License-Identifier: Apache-2.0
import { type ParseArgsConfig, parseArgs } from "node:util";
import { defaultRelayLimits, type RelayLimits } from "@dm-env-rpc/relay";
import { isLoopback } from "@dm-env-rpc/transport";

/** Configuration from the command line and the environment. */
export interface Flags {
  readonly host: string;
  readonly port: number;
  readonly publicHost: string | undefined;
  readonly programs: string | undefined;
  readonly programPorts: { readonly first: number; readonly last: number } | undefined;
  readonly allowedOrigins: readonly string[];
  readonly allowInsecure: boolean;
  readonly tlsCert: string | undefined;
  readonly tlsKey: string | undefined;
  readonly limits: Partial<RelayLimits>;
  readonly metricsPort: number | undefined;
  readonly logLevel: (typeof logLevels)[number];
  readonly show: "help" | "version" | undefined;
}

type LimitName = keyof RelayLimits;

/** Limits of a relay with their flags. */
const limitFlags: ReadonlyMap<LimitName, string> = new Map(
  (Object.keys(defaultRelayLimits) as LimitName[]).map((name) => [
    name,
    name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`),
  ]),
);

const logLevels = ["fatal", "error", "warn", "info", "debug", "trace", "silent"] as const;

/** Output of `--help`. */
export const help = `Relays dm_env_rpc agents to programs that accept no connections: pages, and games behind NAT.

usage: dm-env-rpc-relay-server --programs FILE [options]

  --programs FILE        programs that may dial in: on each line a name, a token of at least 16 characters and, if
                         several programs share the token, their maximum number
  --host ADDRESS         address to listen on (127.0.0.1)
  --port N               port that programs dial; 0 picks one (8970)
  --program-ports A-B    ports for the agents of programs, one for each (any free ports)
  --public-host HOST     host in the addresses that programs and agents are given (--host)
  --allow-origins LIST   origins of pages that may dial in, separated by commas; * for all (none)
  --allow-insecure       allow a host other than loopback without TLS; others can then read the traffic, tokens included
  --tls-cert FILE        certificate to serve TLS with on all ports, as PEM
  --tls-key FILE         its key
  --metrics-port N       port for Prometheus metrics at /metrics; 0 picks one (no metrics)
  --log-level LEVEL      ${logLevels.join(", ")} (info)
  --help, --version

Times and limits, each with its default; those that end in -ms are milliseconds:

${[...limitFlags].map(([name, flag]) => `  --${flag} N`.padEnd(44) + defaultRelayLimits[name]).join("\n")}

Each flag may also be set in the environment: --program-ports as RELAY_PROGRAM_PORTS.
`;

const options = {
  programs: { type: "string" },
  host: { type: "string" },
  port: { type: "string" },
  "program-ports": { type: "string" },
  "public-host": { type: "string" },
  "allow-origins": { type: "string" },
  "allow-insecure": { type: "boolean" },
  "tls-cert": { type: "string" },
  "tls-key": { type: "string" },
  "metrics-port": { type: "string" },
  "log-level": { type: "string" },
  ...Object.fromEntries([...limitFlags.values()].map((flag) => [flag, { type: "string" }])),
  help: { type: "boolean" },
  version: { type: "boolean" },
} as const satisfies ParseArgsConfig["options"];

/**
 * Reads the command line, and the environment for flags that it lacks.
 *
 * @throws Error that names a malformed flag, the expected value and the received one.
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
    const named = environment[`RELAY_${flag.toUpperCase().replaceAll("-", "_")}`];
    return named === "" ? undefined : named;
  };
  const wholeNumber = (flag: string, most = Number.MAX_SAFE_INTEGER): number | undefined => {
    const given = text(flag);
    if (given === undefined || (/^\d+$/.test(given) && Number(given) <= most)) {
      return given === undefined ? undefined : Number(given);
    }
    const range = most === Number.MAX_SAFE_INTEGER ? "a number" : `an integer from 0 to ${most}`;
    throw new Error(`--${flag}: expected ${range}, received "${given}"; see --help`);
  };
  const limits: { -readonly [Name in LimitName]?: number } = {};
  for (const [name, flag] of limitFlags) {
    const given = wholeNumber(flag);
    if (given !== undefined) {
      limits[name] = given;
    }
  }
  const [tlsCert, tlsKey] = [text("tls-cert"), text("tls-key")];
  if ((tlsCert === undefined) !== (tlsKey === undefined)) {
    throw new Error(
      `--tls-cert and --tls-key: expected both, received only ${tlsCert === undefined ? "--tls-key" : "--tls-cert"}; see --help`,
    );
  }
  const logLevel = text("log-level") ?? "info";
  const level = logLevels.find((known) => known === logLevel);
  if (level === undefined) {
    throw new Error(
      `--log-level: expected one of ${logLevels.join(", ")}, received "${logLevel}"; see --help`,
    );
  }
  const insecure = values["allow-insecure"] ?? text("allow-insecure");
  const allowInsecure = insecure === true || insecure === "true" || insecure === "1";
  const host = text("host") ?? "127.0.0.1";
  if (tlsCert === undefined && !allowInsecure && !isLoopback(host)) {
    throw new Error(
      `--host ${host} is not a loopback address: expected --tls-cert and --tls-key, or --allow-insecure if the network can be trusted; see --help`,
    );
  }
  return {
    host,
    port: wholeNumber("port", 65_535) ?? 8970,
    publicHost: text("public-host"),
    programs: text("programs"),
    programPorts: readPorts(text("program-ports")),
    allowedOrigins: (text("allow-origins") ?? "").split(",").filter((origin) => origin !== ""),
    allowInsecure,
    tlsCert,
    tlsKey,
    limits,
    metricsPort: wholeNumber("metrics-port", 65_535),
    logLevel: level,
    show: values.help ? "help" : values.version ? "version" : undefined,
  };
}

function readPorts(given: string | undefined): Flags["programPorts"] {
  if (given === undefined) {
    return undefined;
  }
  const [, first, last] = /^(\d+)-(\d+)$/.exec(given) ?? [];
  if (first === undefined || last === undefined) {
    throw new Error(
      `--program-ports: expected two ports such as 9000-9099, received "${given}"; see --help`,
    );
  }
  return { first: Number(first), last: Number(last) };
}
