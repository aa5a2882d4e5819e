// SPDX-License-Identifier: Apache-2.0
/** The gRPC health checking protocol. */
export * from "./gen/grpc/health/v1/health_pb.ts";
