// SPDX-License-Identifier: Apache-2.0
import { spawn } from "node:child_process";
import { addAbortListener, once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

/** One of the servers, in a process of its own. */
export interface ServerProcess extends AsyncDisposable {
  /** Where it listens: `HOST:PORT`. */
  readonly address: string;
  /** Rejects when it ends before it is disposed, saying how. */
  readonly lost: Promise<never>;
}

/**
 * Starts a server on a free port.
 *
 * @param signal Ends it while it starts; no more once it listens.
 * @throws Error when it ends before it listens; the signal's reason, once it has ended for that.
 */
export async function startServer(
  app: "gridworld-server" | "matchmaker-server",
  args: readonly string[],
  signal: AbortSignal,
): Promise<ServerProcess> {
  signal.throwIfAborted();
  const main = fileURLToPath(import.meta.resolve(`@dm-env-rpc/${app}/main`));
  const server = spawn(process.execPath, [main, "--port", "0", ...args], {
    stdio: ["ignore", "pipe", "inherit"],
    // A Ctrl-C is for the demo, which ends the servers when the agents have left.
    detached: true,
  });
  const ended = once(server, "exit").then(([code, signal]) => signal ?? `exit code ${code}`);
  const stop = (): void => void server.kill("SIGTERM");
  process.once("exit", stop);
  using _ending = addAbortListener(signal, stop);
  const lines = createInterface(server.stdout);
  const listening = once(lines, "line").then(([line]) => /^listening on http:\/\/(.+)$/.exec(line));
  const address = (await Promise.race([listening, ended.then(() => null)]))?.[1];
  if (address === undefined || signal.aborted) {
    stop();
    const how = await ended;
    process.off("exit", stop);
    signal.throwIfAborted();
    throw new Error(`the ${app} ended before it listened, with ${how}`);
  }
  lines.on("line", () => {});
  let isOver = false;
  const lost = ended.then((how) => {
    if (isOver) {
      return new Promise<never>(() => {});
    }
    throw new Error(`the ${app} at ${address} ended with ${how}, and the demo with it`);
  });
  // Whoever waits for it is told; nobody need.
  lost.catch(() => {});
  return {
    address,
    lost,
    async [Symbol.asyncDispose]() {
      isOver = true;
      stop();
      await ended;
      process.off("exit", stop);
    },
  };
}
