// SPDX-License-Identifier: Apache-2.0
import { spawn } from "node:child_process";
import { addAbortListener, once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

/** A server in its own process. */
export interface ServerProcess extends AsyncDisposable {
  /** `HOST:PORT` that it listens on. */
  readonly address: string;
  /** Rejects with the exit code or signal if it ends before it is disposed. */
  readonly lost: Promise<never>;
}

/**
 * Starts a server on a free port.
 *
 * @param signal Ends the server while it starts; ignored once it listens.
 * @throws Error if the server ends before it listens; the signal's reason if the signal ended it.
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
    // Ctrl-C must reach only the demo, which ends the servers after the agents have left.
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
    throw new Error(`the ${app} at ${address} ended with ${how}, so the demo ends, too`);
  });
  // Marks the promise as handled, because not every caller waits for it.
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
