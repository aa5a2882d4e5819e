// SPDX-License-Identifier: Apache-2.0
/** Messages of the properties extension. */
export * from "./gen/dm_env_rpc/v1/extensions/properties_pb.ts";
