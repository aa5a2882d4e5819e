// SPDX-License-Identifier: Apache-2.0
import { spawn } from "node:child_process";
import { once } from "node:events";
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
 * @throws Error when it ends before it listens.
 */
export async function startServer(
  app: "gridworld-server" | "matchmaker-server",
  ...args: readonly string[]
): Promise<ServerProcess> {
  const main = fileURLToPath(import.meta.resolve(`@dm-env-rpc/${app}/main`));
  const server = spawn(process.execPath, [main, "--port", "0", ...args], {
    stdio: ["ignore", "pipe", "inherit"],
    // A Ctrl-C is for the demo, which ends the servers when the agents have left.
    detached: true,
  });
  const ended = once(server, "exit").then(([code, signal]) => signal ?? `exit code ${code}`);
  const stop = (): void => void server.kill("SIGTERM");
  process.once("exit", stop);
  const lines = createInterface(server.stdout);
  const listening = once(lines, "line").then(([line]) => /^listening on http:\/\/(.+)$/.exec(line));
  const address = (await Promise.race([listening, ended.then(() => null)]))?.[1];
  if (address === undefined) {
    stop();
    throw new Error(`the ${app} ended before it listened, with ${await ended}`);
  }
  lines.on("line", () => {});
  let isOver = false;
  const lost = ended.then((how) => {
    if (isOver) return new Promise<never>(() => {});
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
