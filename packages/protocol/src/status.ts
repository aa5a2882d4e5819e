// SPDX-License-Identifier: Apache-2.0
/** The error status of a response, google.rpc.Status. */
export * from "./gen/google/rpc/status_pb.ts";
