// SPDX-License-Identifier: Apache-2.0
/** Frames between a relay and the programs that dial out to it. */
export * from "./gen/relay/v1/relay_pb.ts";
