// SPDX-License-Identifier: Apache-2.0

/** HTTP path of Process, the call that this package frames itself. */
export const processPath: string = "/dm_env_rpc.v1.Environment/Process";
