// Serves the environment of environment.ts, for agents in other processes:
//   PORT=8980 node dist/serve.js
import { serve } from "@dm-env-rpc/server";
import { cartPole } from "./environment.ts";

const server = await serve({ worlds: [cartPole], port: Number(process.env["PORT"] ?? "8980") });
process.on("SIGTERM", () => void server.close());
process.on("SIGINT", () => void server.close());
console.log(`listening on ${server.url}`);
