// SPDX-License-Identifier: Apache-2.0

/** What is spoken over HTTP/2. */
export type ProtocolName = "grpc" | "connect" | "grpc-web";
