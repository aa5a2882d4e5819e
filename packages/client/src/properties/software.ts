// SPDX-License-Identifier: Apache-2.0

/** What this client is, and in which version. A test compares it with package.json. */
export const software = { name: "@dm-env-rpc/client", version: "0.1.0" } as const;
