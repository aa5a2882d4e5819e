// SPDX-License-Identifier: Apache-2.0
/** A world author's side of dm_env_rpc: define worlds, and serve them. */
export type { ListenTls } from "@dm-env-rpc/transport";
export * from "./browser.ts";
export { createHealthBoard, type HealthBoard } from "./host/health.ts";
export { addReflection } from "./host/reflection.ts";
export { type ServeOptions, type Server, serve } from "./host/serve.ts";
