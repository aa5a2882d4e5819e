// SPDX-License-Identifier: Apache-2.0
/** The gRPC server reflection protocol as it was before v1. */
export * from "./gen/grpc/reflection/v1alpha/reflection_pb.ts";
