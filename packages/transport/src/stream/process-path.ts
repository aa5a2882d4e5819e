// SPDX-License-Identifier: Apache-2.0

/** The path of Process, the one call that has a framing of its own here. */
export const processPath: string = "/dm_env_rpc.v1.Environment/Process";
