// SPDX-License-Identifier: Apache-2.0
import type { IncomingHttpHeaders } from "node:http2";
import { DmEnvRpcError, type StatusCode } from "@dm-env-rpc/tensor-codec";
import { fromConnectError } from "../internal/connect-errors.ts";
import { envelope } from "../internal/envelope.ts";
import { trailersOf } from "./grpc-status.ts";

const connectEndFlag = 0x02;
const webTrailersFlag = 0x80;

/**
 * A protocol whose messages have the frames of gRPC: a byte of flags and four bytes of length. The protocols differ in
 * how they report the end of a call.
 */
export interface CallProtocol {
  /** True if messages are in JSON, false if they are in protobuf. */
  readonly isJson: boolean;
  /** Headers of a response. */
  readonly responseHeaders: Readonly<Record<string, string>>;
  /** Request header with the encoding of compressed messages. */
  readonly encodingHeader: string;
  /** Returns the deadline of a call, in ms after its start; undefined if it has none. */
  timeoutMs(headers: IncomingHttpHeaders): number | undefined;
  /** Returns the last part of the body; undefined if trailers report how the call ended. */
  end(error: Error | undefined): Uint8Array | undefined;
}

const grpc: CallProtocol = {
  isJson: false,
  responseHeaders: {
    "content-type": "application/grpc",
    "grpc-accept-encoding": "identity,gzip",
  },
  encodingHeader: "grpc-encoding",
  timeoutMs: ({ "grpc-timeout": timeout }) => grpcTimeoutMs(timeout),
  end: () => undefined,
};

const grpcWeb: CallProtocol = {
  ...grpc,
  responseHeaders: { ...grpc.responseHeaders, "content-type": "application/grpc-web+proto" },
  end: (error) => {
    const lines = Object.entries(trailersOf(error)).map(([name, value]) => `${name}: ${value}\r\n`);
    return envelope(new TextEncoder().encode(lines.join("")), webTrailersFlag);
  },
};

const connect: CallProtocol = {
  isJson: false,
  responseHeaders: {
    "content-type": "application/connect+proto",
    "connect-accept-encoding": "gzip",
  },
  encodingHeader: "connect-content-encoding",
  timeoutMs: ({ "connect-timeout-ms": timeout }) => connectTimeoutMs(timeout),
  end: (error) => {
    const end = error === undefined ? {} : { error: connectErrorOf(error) };
    return envelope(new TextEncoder().encode(JSON.stringify(end)), connectEndFlag);
  },
};

const protocols: ReadonlyMap<string, CallProtocol> = new Map([
  ["application/grpc", grpc],
  ["application/grpc+proto", grpc],
  ["application/grpc-web", grpcWeb],
  ["application/grpc-web+proto", grpcWeb],
  ["application/connect+proto", connect],
]);

const grpcJson = inJson(grpc, "application/grpc+json");

const jsonProtocols: ReadonlyMap<string, CallProtocol> = new Map([
  ["application/grpc+json", grpcJson],
  ["application/grpc-web+json", inJson(grpcWeb, "application/grpc-web+json")],
  ["application/connect+json", inJson(connect, "application/connect+json")],
]);

function inJson(protocol: CallProtocol, type: string): CallProtocol {
  return {
    ...protocol,
    isJson: true,
    responseHeaders: { ...protocol.responseHeaders, "content-type": type },
  };
}

/** Returns the protocol of a streaming call with protobuf messages; undefined for any other request. */
export function callProtocolOf(headers: IncomingHttpHeaders): CallProtocol | undefined {
  return protocolIn(protocols, headers);
}

/** Returns the protocol of a streaming call with messages in JSON; undefined for any other request. */
export function jsonProtocolOf(headers: IncomingHttpHeaders): CallProtocol | undefined {
  return protocolIn(jsonProtocols, headers);
}

function protocolIn(
  known: ReadonlyMap<string, CallProtocol>,
  headers: IncomingHttpHeaders,
): CallProtocol | undefined {
  const type = headers["content-type"];
  return type === undefined
    ? undefined
    : (known.get(type) ?? known.get(type.split(";", 1)[0]?.trimEnd() ?? ""));
}

/** True for the protocol that reports the end of a call in trailers. */
export function endsInTrailers(protocol: CallProtocol): boolean {
  return protocol === grpc || protocol === grpcJson;
}

/** Returns the error of a call that was not answered before its deadline. */
export function deadlinePassed(timeoutMs: number): DmEnvRpcError {
  return new DmEnvRpcError(
    "DEADLINE_EXCEEDED",
    `the deadline that the client set (${timeoutMs} ms) has passed`,
    { origin: "client" },
  );
}

/** Longest timer: 2^31 - 1 ms. A call with a later deadline has none. */
const maxTimerMs = 2 ** 31 - 1;

const unitMs: Record<string, number> = {
  H: 3_600_000,
  M: 60_000,
  S: 1_000,
  m: 1,
  u: 1e-3,
  n: 1e-6,
};

/** Parses a grpc-timeout to milliseconds; undefined if it is malformed or too long for a timer. */
function grpcTimeoutMs(timeout: string | string[] | undefined): number | undefined {
  const match = /^(\d{1,8})([HMSmun])$/.exec(String(timeout));
  const unit = unitMs[match?.[2] ?? ""];
  if (match === null || unit === undefined) {
    return undefined;
  }
  const milliseconds = Math.ceil(Number(match[1]) * unit);
  return milliseconds <= maxTimerMs ? milliseconds : undefined;
}

/** Parses a connect-timeout-ms; undefined if it is malformed or too long for a timer. */
function connectTimeoutMs(timeout: string | string[] | undefined): number | undefined {
  const milliseconds = /^\d{1,10}$/.test(String(timeout)) ? Number(timeout) : undefined;
  return milliseconds !== undefined && milliseconds <= maxTimerMs ? milliseconds : undefined;
}

/** Connect's names of the codes are gRPC's names in lower case, except for "canceled". */
function connectErrorOf(error: Error): { readonly code: string; readonly message: string } {
  const { code, message } = fromConnectError(error, "server");
  const name = (code satisfies StatusCode).toLowerCase();
  return { code: name === "cancelled" ? "canceled" : name, message };
}
