// SPDX-License-Identifier: Apache-2.0
import { parseArgs } from "node:util";
import { defaultLimits } from "@dm-env-rpc/server";
import { isLoopback, parseAddress } from "@dm-env-rpc/transport";
import { type ClockName, clockNames, clocks, type Pace, paceFlags } from "./clocks.ts";

/** Policies for destroying a board with agents on it. */
export const destroyPolicies = ["refuse", "drain", "force"] as const;

/** Certificate files, in PEM. */
export interface TlsFiles {
  readonly cert: string;
  readonly key: string;
  /**
   * Authority that must have signed a client's certificate. Without it, clients need no
   * certificate.
   */
  readonly ca: string | undefined;
}

/** Options of the registration with matchmakers. */
export interface MatchmakingFlags {
  /** Addresses of matchmakers that share one store. */
  readonly matchmakers: readonly string[];
  /**
   * Address of this server for the matchmaker and the agents. Default: the one that it listens on.
   */
  readonly advertise: string | undefined;
  readonly region: string | undefined;
  readonly labels: Readonly<Record<string, string>>;
  readonly maxAgents: number;
  /** Files with the credentials for the matchmaker and the authorities to trust. */
  readonly token: string | undefined;
  readonly ca: string | undefined;
}

/** Parsed command line. */
export interface Flags extends Pace {
  readonly host: string;
  readonly port: number;
  readonly allowInsecure: boolean;
  readonly page: boolean;
  readonly tls: TlsFiles | undefined;
  readonly clock: ClockName;
  readonly destroy: (typeof destroyPolicies)[number];
  readonly listenBacklog: number;
  readonly maxWorlds: number;
  readonly idleWorldMs: number;
  readonly graceMs: number;
  readonly metricsPort: number | undefined;
  /** Undefined: every client may create and join worlds. */
  readonly matchmaking: MatchmakingFlags | undefined;
  readonly show: "help" | "version" | undefined;
}

/** Text of `--help`. */
export const help = `Serves Level-Based Foraging, a multi-agent gridworld, over dm_env_rpc.

usage: dm-env-rpc-gridworld-server [options]

where
  --host ADDRESS         address to listen on, or unix:/path for a Unix domain socket
                         (127.0.0.1)
  --port N               port to listen on; 0 picks one (8980)
  --tls-cert FILE        certificate to serve TLS with, PEM; with --tls-key
  --tls-key FILE         its key, PEM
  --tls-ca FILE          admits only clients with a certificate of this authority, PEM
  --allow-insecure       allow a host other than loopback without TLS: every client that
                         reaches the address may use the server
  --listen-backlog N     connections that may wait to be accepted; the kernel's own
                         limit also applies (4096)
  --metrics-port N       port for Prometheus metrics at /metrics; 0 picks one (no metrics)
  --page                 serves a page at the same address on which people watch and
                         play boards; with --matchmaker, a player needs a join token.
                         Every client that reaches the address may watch

when
  --clock CLOCK          the board advances when every agent has stepped (lockstep, the
                         default), for one agent after the other (turns), at a rate
                         (realtime), with each step (freeRunning), or until the next
                         agent wakes, which each agent sets with its action "sleep"
                         (wakeUp)
  --deadline-ms N        milliseconds that lockstep, turns and wakeUp wait for a slow
                         agent, which then does nothing in that tick, and that every
                         clock but realtime waits for the first steps of a sequence,
                         which then begins without the slow agent; 0 waits forever
                         (10000)
  --ticks-per-second N   rate of the clock realtime (10)

worlds
  --max-worlds N         boards at a time (1000)
  --idle-world-ms N      destroys a board that has been empty for this time; 0 never does
                         (600000)
  --destroy POLICY       a destroy with agents joined is refused (refuse, the default),
                         waits for them to leave (drain), or ends the board (force, the
                         default with --matchmaker, which decides when to destroy)
  --grace-ms N           on SIGTERM or SIGINT, time for the agents to receive the end of
                         their sequences; a second signal exits immediately (5000)

matchmaking
  --matchmaker ADDRESS   registers with a matchmaker; then only the matchmaker creates
                         boards and assigns agents. Repeat the flag for matchmakers
                         that share a store
  --advertise ADDRESS    address at which the matchmaker and the agents reach this
                         server; needed with --host 0.0.0.0 or ::
  --region NAME          region of this server, as named in the latencies of tickets
  --label KEY=VALUE      label of this server, by which match profiles select servers;
                         repeat the flag for several
  --max-agents N         agents that the matchmaker may assign at a time (1000)
  --matchmaker-token FILE
                         file with the token for the matchmaker, which also receives
                         the certificate of --tls-cert
  --matchmaker-ca FILE   authority of the matchmaker's certificate, PEM

  --help, --version
`;

const options = {
  host: { type: "string", default: "127.0.0.1" },
  port: { type: "string", default: "8980" },
  "tls-cert": { type: "string" },
  "tls-key": { type: "string" },
  "tls-ca": { type: "string" },
  "allow-insecure": { type: "boolean", default: false },
  "listen-backlog": { type: "string", default: String(defaultLimits.listenBacklog) },
  "metrics-port": { type: "string" },
  page: { type: "boolean", default: false },
  clock: { type: "string", default: "lockstep" },
  "deadline-ms": { type: "string" },
  "ticks-per-second": { type: "string" },
  "max-worlds": { type: "string", default: "1000" },
  "idle-world-ms": { type: "string", default: "600000" },
  destroy: { type: "string" },
  "grace-ms": { type: "string", default: "5000" },
  matchmaker: { type: "string", multiple: true },
  advertise: { type: "string" },
  region: { type: "string" },
  label: { type: "string", multiple: true },
  "max-agents": { type: "string" },
  "matchmaker-token": { type: "string" },
  "matchmaker-ca": { type: "string" },
  help: { type: "boolean", default: false },
  version: { type: "boolean", default: false },
} as const;

const maxMs = 2 ** 31 - 1;

const either = new Intl.ListFormat("en-GB", { type: "disjunction" });

/**
 * Parses the command line.
 *
 * @throws Error of one line that names the flag, the expected value and the received one.
 */
export function readFlags(args: readonly string[]): Flags {
  const values = parse(args);
  const clock = oneOf("--clock", values.clock, clockNames);
  for (const flag of paceFlags) {
    if (values[flag] === undefined || clocks[clock].flag === flag) {
      continue;
    }
    const takers = either.format(clockNames.filter((name) => clocks[name].flag === flag));
    throw new Error(
      `--${flag}: expected with --clock ${takers}, received with --clock ${clock}; see --help`,
    );
  }
  const tls = tlsFiles(values["tls-cert"], values["tls-key"], values["tls-ca"]);
  const allowInsecure = values["allow-insecure"];
  if (tls === undefined && !allowInsecure && !isLoopback(values.host)) {
    throw new Error(
      `--host ${values.host} is not a loopback address: expected --tls-cert and --tls-key, or --allow-insecure if the network can be trusted; see --help`,
    );
  }
  const destroyDefault = values.matchmaker === undefined ? "refuse" : "force";
  return {
    host: values.host,
    port: integer("--port", values.port, 0, 65_535),
    allowInsecure,
    page: values.page,
    tls,
    clock,
    deadlineMs: integer("--deadline-ms", values["deadline-ms"] ?? "10000", 0, maxMs),
    ticksPerSecond: integer("--ticks-per-second", values["ticks-per-second"] ?? "10", 1, 1000),
    destroy: oneOf("--destroy", values.destroy ?? destroyDefault, destroyPolicies),
    listenBacklog: integer("--listen-backlog", values["listen-backlog"], 1, maxMs),
    maxWorlds: integer("--max-worlds", values["max-worlds"], 1, 1_000_000),
    idleWorldMs: integer("--idle-world-ms", values["idle-world-ms"], 0, maxMs),
    graceMs: integer("--grace-ms", values["grace-ms"], 0, maxMs),
    metricsPort:
      values["metrics-port"] === undefined
        ? undefined
        : integer("--metrics-port", values["metrics-port"], 0, 65_535),
    matchmaking: matchmaking(values),
    show: values.help ? "help" : values.version ? "version" : undefined,
  };
}

function parse(args: readonly string[]) {
  try {
    return parseArgs({ args: [...args], options }).values;
  } catch (error) {
    const [line = ""] = (error instanceof Error ? error.message : String(error)).split("\n");
    throw new Error(`${line.replace(/\.?$/, "")}; see --help`, { cause: error });
  }
}

const onlyWithMatchmaker = [
  "advertise",
  "region",
  "label",
  "max-agents",
  "matchmaker-token",
  "matchmaker-ca",
] as const;
const everywhere: ReadonlySet<string> = new Set(["0.0.0.0", "::", "[::]"]);

function matchmaking(values: ReturnType<typeof parse>): MatchmakingFlags | undefined {
  const { matchmaker: matchmakers, advertise, host } = values;
  if (matchmakers === undefined) {
    const given = onlyWithMatchmaker.find((flag) => values[flag] !== undefined);
    if (given === undefined) {
      return undefined;
    }
    throw new Error(`--${given}: expected with --matchmaker, received without it; see --help`);
  }
  if (advertise === undefined && everywhere.has(host)) {
    throw new Error(
      `--host ${host} is not an address that agents can connect to: expected --advertise with --matchmaker; see --help`,
    );
  }
  return {
    matchmakers: matchmakers.map((address) => checkedAddress("--matchmaker", address)),
    advertise: advertise === undefined ? undefined : checkedAddress("--advertise", advertise),
    region: values.region,
    labels: Object.fromEntries((values.label ?? []).map(label)),
    maxAgents: integer("--max-agents", values["max-agents"] ?? "1000", 1, 1_000_000),
    token: values["matchmaker-token"],
    ca: values["matchmaker-ca"],
  };
}

function label(text: string): readonly [key: string, value: string] {
  const end = text.indexOf("=");
  if (end > 0) {
    return [text.slice(0, end), text.slice(end + 1)];
  }
  throw new Error(`--label: expected KEY=VALUE, received "${text}"; see --help`);
}

function tlsFiles(
  cert: string | undefined,
  key: string | undefined,
  ca: string | undefined,
): TlsFiles | undefined {
  if (cert !== undefined && key !== undefined) {
    return { cert, key, ca };
  }
  if (cert === undefined && key === undefined && ca === undefined) {
    return undefined;
  }
  const received = Object.entries({ "--tls-cert": cert, "--tls-key": key, "--tls-ca": ca })
    .filter(([, file]) => file !== undefined)
    .map(([flag]) => flag);
  throw new Error(
    `--tls-cert and --tls-key: expected both, received only ${received.join(" and ")}; see --help`,
  );
}

function oneOf<const T extends string>(flag: string, text: string, known: readonly T[]): T {
  const found = known.find((name) => name === text);
  if (found !== undefined) {
    return found;
  }
  throw new Error(`${flag}: expected one of ${known.join(", ")}, received "${text}"; see --help`);
}

function checkedAddress(flag: string, text: string): string {
  try {
    parseAddress(text);
    return text;
  } catch (error) {
    throw new Error(
      `${flag}: expected HOST:PORT, optionally with http:// or https://, received "${text}"; see --help`,
      { cause: error },
    );
  }
}

function integer(flag: string, text: string, min: number, max: number): number {
  const value = /^\d+$/.test(text) ? Number(text) : Number.NaN;
  if (value >= min && value <= max) {
    return value;
  }
  throw new Error(
    `${flag}: expected an integer from ${min} to ${max}, received "${text}"; see --help`,
  );
}
