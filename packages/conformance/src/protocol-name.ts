// SPDX-License-Identifier: Apache-2.0

/** RPC protocol over HTTP/2. */
export type ProtocolName = "grpc" | "connect" | "grpc-web";
