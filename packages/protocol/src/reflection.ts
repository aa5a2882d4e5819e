// SPDX-License-Identifier: Apache-2.0
/** The gRPC server reflection protocol. */
export * from "./gen/grpc/reflection/v1/reflection_pb.ts";
