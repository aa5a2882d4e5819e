// SPDX-License-Identifier: Apache-2.0
import { type Child, type ChildOptions, startNode, startPython } from "./child.ts";
import { withInstructions } from "./instructions.ts";
import { turnOrder } from "./order.ts";
import { type Summary, summarize } from "./statistics.ts";

/** The runtime and the peer of one side of a contender. */
export interface Side {
  readonly runtime: "node" | "python";
  readonly peer: string;
  /** The worker of another checkout, for `node`. Default: this one's. */
  readonly worker?: string | undefined;
  /** Options of V8, for `node`. Default: none. */
  readonly v8?: readonly string[] | undefined;
}

/** A server and a client to be compared with others. */
export interface Contender {
  readonly id: string;
  /** The name to print. */
  readonly label: string;
  /** Undefined if the client needs no server. */
  readonly server: Side | undefined;
  readonly client: Side;
}

/** A way to play: connections, and steps in flight on each. */
export interface Mode {
  readonly id: string;
  readonly label: string;
  readonly connections: number;
  readonly inFlight: number;
}

/** Duration and number of turns. */
export interface Effort {
  /**
   * Number of restarts of all processes: two processes of the same program can differ by a tenth
   * for as long as they run.
   */
  readonly launches: number;
  /** Turns in each launch. */
  readonly repetitions: number;
  readonly turnMs: number;
  /** Unmeasured play of a Node process in each mode. */
  readonly warmUpMs: number;
}

/** The figures of one contender in one mode. */
export interface Measured {
  readonly contender: string;
  readonly mode: string;
  readonly stepsPerSecond: Summary;
  /** CPU microseconds of a step. */
  readonly serverCpuMicros: Summary | undefined;
  readonly clientCpuMicros: Summary;
  /** Microseconds of garbage collection pauses per step. */
  readonly serverGcMicros: Summary | undefined;
  readonly clientGcMicros: Summary | undefined;
  /** Microseconds of a step; only with one in flight per connection. */
  readonly p50Micros: Summary | undefined;
  readonly p99Micros: Summary | undefined;
  /** The largest at the end of any turn. */
  readonly serverRssBytes: number | undefined;
  readonly clientRssBytes: number;
}

/** A comparison of contenders. */
export interface Comparison extends ChildOptions {
  readonly load: string;
  /**
   * True if all contenders play in the same two processes, on the server of the first. For
   * contenders whose difference is smaller than that of two processes of the same program. Default
   * false.
   */
  readonly sharesProcesses?: boolean | undefined;
  readonly contenders: readonly Contender[];
  readonly modes: readonly Mode[];
  readonly effort: Effort;
  /** Adds a turn to each launch in which the instructions of a step are counted (`withInstructions`). Default false. */
  readonly countsInstructions?: boolean | undefined;
  /** Receives progress messages. */
  readonly onProgress: (text: string) => void;
}

interface Entrant {
  readonly contender: Contender;
  readonly server: Child | undefined;
  readonly client: Child;
  /** The server's port. */
  port: number;
}

/** Figures of one turn. */
export interface Sample {
  readonly steps: number;
  readonly stepsPerSecond: number;
  readonly serverCpuMicros: number | undefined;
  readonly clientCpuMicros: number;
  readonly serverGcMicros: number | undefined;
  readonly clientGcMicros: number | undefined;
  readonly p50Micros: number | undefined;
  readonly p99Micros: number | undefined;
  readonly serverRssBytes: number | undefined;
  readonly clientRssBytes: number;
}

/** Samples by contender and mode, in the order of the turns. */
export interface Samples {
  of(contender: Contender, mode: Mode): readonly Sample[];
  /** User-space instructions of a step on both sides, one count for each launch. */
  instructionsOf(contender: Contender, mode: Mode): readonly number[];
}

interface Taken {
  readonly turns: Sample[];
  readonly instructions: number[];
}

/** Compares contenders and summarizes the samples of each in each mode. */
export async function compare(comparison: Comparison): Promise<Measured[]> {
  const { contenders, modes } = comparison;
  const samples = await takeSamples(comparison);
  return modes.flatMap((mode) =>
    contenders.map((contender) => measured(contender, mode, samples.of(contender, mode))),
  );
}

/**
 * Samples contenders: all their processes are started, then in each mode they play in turns (`turnOrder`), so that a slow
 * spell of the machine affects all of them.
 */
export async function takeSamples(comparison: Comparison): Promise<Samples> {
  const { effort } = comparison;
  const samples = new Map<string, Taken>();
  for (let launch = 1; launch <= effort.launches; launch++) {
    const entrants: Entrant[] = [];
    try {
      await prepare(comparison, launch, entrants);
      await takeTurns(comparison, entrants, launch, samples);
    } finally {
      await Promise.all(
        entrants.flatMap(({ server, client }) => [client.close(), server?.close()]),
      );
    }
  }
  return {
    of: (contender, mode) => takenOf(samples, contender, mode).turns,
    instructionsOf: (contender, mode) => takenOf(samples, contender, mode).instructions,
  };
}

/** Starts the processes of all contenders, in the opposite order in every other launch. */
async function prepare(comparison: Comparison, launch: number, entrants: Entrant[]): Promise<void> {
  const { contenders, load } = comparison;
  for (const contender of launch % 2 === 1 ? contenders : [...contenders].reverse()) {
    const [first] = entrants;
    const shares = first !== undefined && comparison.sharesProcesses === true;
    const entrant = shares ? { ...first, contender } : start(contender, comparison);
    entrants.push(entrant);
    if (!shares) {
      await serve(entrant, load);
    }
  }
}

async function takeTurns(
  { modes, effort, load, countsInstructions, onProgress }: Comparison,
  entrants: readonly Entrant[],
  launch: number,
  samples: Map<string, Taken>,
): Promise<void> {
  const { launches, repetitions, turnMs } = effort;
  for (const mode of modes) {
    onProgress(`warming up ${mode.label}`);
    for (const entrant of entrants) {
      await connect(entrant, mode, load);
      await warmUp(entrant, mode, effort);
    }
    for (let repetition = 0; repetition < repetitions; repetition++) {
      const turn = (launch - 1) * repetitions + repetition;
      onProgress(`turn ${turn + 1} of ${launches * repetitions}: ${mode.label}`);
      for (const entrant of turnOrder(entrants, turn)) {
        const { turns } = takenOf(samples, entrant.contender, mode);
        turns.push(await play(entrant, mode, turnMs));
      }
    }
    if (countsInstructions !== true) {
      continue;
    }
    // In a turn of its own, because counting makes each switch between processes more expensive.
    for (const entrant of entrants) {
      const { instructions } = takenOf(samples, entrant.contender, mode);
      const count = await instructionsOfStep(entrant, mode, turnMs);
      if (count !== undefined) {
        instructions.push(count);
      }
    }
  }
}

function takenOf(samples: Map<string, Taken>, contender: Contender, mode: Mode): Taken {
  const key = keyOf(contender, mode);
  const taken = samples.get(key) ?? { turns: [], instructions: [] };
  samples.set(key, taken);
  return taken;
}

async function instructionsOfStep(
  entrant: Entrant,
  mode: Mode,
  turnMs: number,
): Promise<number | undefined> {
  const { server, client } = entrant;
  const pids = [server, client].flatMap((child) => child?.pid ?? []);
  const { result, instructions } = await withInstructions(pids, () => play(entrant, mode, turnMs));
  return instructions === undefined ? undefined : instructions / result.steps;
}

const keyOf = (contender: Contender, mode: Mode): string => `${contender.id} ${mode.id}`;

function start(contender: Contender, options: ChildOptions): Entrant {
  const child = (side: Side, role: string): Child =>
    side.runtime === "node"
      ? startNode({ ...options, worker: side.worker, v8: side.v8 }, `${contender.id}-${role}`)
      : startPython(options, `${contender.id}-${role}`);
  return {
    contender,
    server: contender.server && child(contender.server, "server"),
    client: child(contender.client, "client"),
    port: 0,
  };
}

async function serve(entrant: Entrant, load: string): Promise<void> {
  const { contender, server } = entrant;
  if (server === undefined || contender.server === undefined) {
    return;
  }
  const { port } = await server.ask("serve", { peer: contender.server.peer, load });
  entrant.port = port;
}

async function connect({ contender, client, port }: Entrant, mode: Mode, load: string) {
  const { connections, inFlight } = mode;
  const { peer } = contender.client;
  const group = keyOf(contender, mode);
  await client.ask("connect", { group, peer, load, port, connections, inFlight });
}

/**
 * Plays without measuring until the code is compiled: a Node process gets faster for some two seconds of play in
 * each mode, threefold and more with many steps in flight.
 */
async function warmUp(entrant: Entrant, mode: Mode, { warmUpMs, turnMs }: Effort) {
  const { server, client } = entrant.contender;
  const isInNode = server?.runtime === "node" || client.runtime === "node";
  await play(entrant, mode, isInNode ? warmUpMs : turnMs);
}

async function play(
  { contender, server, client }: Entrant,
  mode: Mode,
  durationMs: number,
): Promise<Sample> {
  const before = await server?.ask("usage", {});
  const { inFlight } = mode;
  const group = keyOf(contender, mode);
  const result = await client.ask("play", { group, inFlight, durationMs });
  const after = await server?.ask("usage", {});
  const { rssBytes } = await client.ask("usage", {});
  const { steps } = result;
  return {
    steps,
    stepsPerSecond: (steps * 1000) / result.elapsedMs,
    serverCpuMicros: before && after ? ((after.cpuMs - before.cpuMs) * 1000) / steps : undefined,
    clientCpuMicros: (result.cpuMs * 1000) / steps,
    serverGcMicros: perStep(before?.gcMs ?? null, after?.gcMs ?? null, steps),
    clientGcMicros: perStep(0, result.gcMs, steps),
    p50Micros: result.p50Micros ?? undefined,
    p99Micros: result.p99Micros ?? undefined,
    serverRssBytes: after?.rssBytes,
    clientRssBytes: rssBytes,
  };
}

function perStep(beforeMs: number | null, afterMs: number | null, steps: number) {
  if (beforeMs === null || afterMs === null) {
    return undefined;
  }
  return ((afterMs - beforeMs) * 1000) / steps;
}

function measured(contender: Contender, mode: Mode, samples: readonly Sample[]): Measured {
  const all = (key: keyof Sample): Summary | undefined => {
    const values = samples.map((sample) => sample[key]).filter((value) => value !== undefined);
    return values.length === 0 ? undefined : summarize(values);
  };
  return {
    contender: contender.id,
    mode: mode.id,
    stepsPerSecond: all("stepsPerSecond") ?? summarize([]),
    serverCpuMicros: all("serverCpuMicros"),
    clientCpuMicros: all("clientCpuMicros") ?? summarize([]),
    serverGcMicros: all("serverGcMicros"),
    clientGcMicros: all("clientGcMicros"),
    p50Micros: all("p50Micros"),
    p99Micros: all("p99Micros"),
    serverRssBytes: all("serverRssBytes")?.max,
    clientRssBytes: all("clientRssBytes")?.max ?? 0,
  };
}
