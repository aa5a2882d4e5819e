// SPDX-License-Identifier: Apache-2.0

/** What serves, and in which version (behaviour 59). A test compares it with package.json. */
export const software = { name: "@dm-env-rpc/server", version: "0.1.0" } as const;
