import { serve } from "@dm-env-rpc/server";
import { world } from "./world.ts";

const { HOST = "127.0.0.1", PORT = "8980", ALLOW_INSECURE, GRACE_MS = "5000" } = process.env;

const server = await serve({
  worlds: [world],
  host: HOST,
  port: Number(PORT),
  // Without TLS, only this machine is let in, unless somebody says that the network can be trusted.
  allowInsecure: ALLOW_INSECURE === "true",
  onEvent(event) {
    if (event.kind === "world-failed") console.error(event.error);
  },
});

// Agents are told that their sequences are over, and have time to take it in.
let stopping = false;
function stop(): void {
  const graceMs = stopping ? 0 : Number(GRACE_MS);
  stopping = true;
  void server.close({ graceMs });
}
process.on("SIGTERM", stop);
process.on("SIGINT", stop);

console.log(`listening on ${server.url}`);
