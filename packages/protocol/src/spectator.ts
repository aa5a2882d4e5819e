// SPDX-License-Identifier: Apache-2.0
/** Watching the worlds of a server. */
export * from "./gen/spectator/v1/spectator_pb.ts";
