// SPDX-License-Identifier: Apache-2.0

/** Name and version of this client. A test compares them with package.json. */
export const software = { name: "@dm-env-rpc/client", version: "0.1.0" } as const;
