// SPDX-License-Identifier: Apache-2.0

/** Name and version of this server (behaviour 59). A test compares it with package.json. */
export const software = { name: "@dm-env-rpc/server", version: "0.1.0" } as const;
