// SPDX-License-Identifier: Apache-2.0
/** Messages and services of the dm_env_rpc protocol itself. */
export * from "./gen/dm_env_rpc/v1/dm_env_rpc_pb.ts";
