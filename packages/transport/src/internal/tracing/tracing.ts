// SPDX-License-Identifier: Apache-2.0

import { isDmEnvRpcError, type StatusCode } from "@dm-env-rpc/tensor-codec";
import {
  type Context,
  context,
  isSpanContextValid,
  type Link,
  ProxyTracerProvider,
  propagation,
  ROOT_CONTEXT,
  type SpanContext,
  SpanKind,
  SpanStatusCode,
  type TextMapGetter,
  trace,
} from "@opentelemetry/api";
import type { SpanAttributes, SpanOptions, StartSpan, TraceSpan } from "./trace-span.ts";

export type { SpanAttributes, SpanOptions, StartSpan, TraceSpan } from "./trace-span.ts";
export { noSpan } from "./trace-span.ts";

/** The provider to which OpenTelemetry's API delegates while no SDK is registered. */
const noProvider = new ProxyTracerProvider().getDelegate();

const kinds = {
  server: SpanKind.SERVER,
  client: SpanKind.CLIENT,
  consumer: SpanKind.CONSUMER,
} as const;

/**
 * Codes that are faults of a server. By OpenTelemetry's semantic conventions, a server's span has the status
 * ERROR only for these codes. Other codes are mistakes of its clients.
 */
const serverFaults: ReadonlySet<StatusCode> = new Set([
  "UNKNOWN",
  "DEADLINE_EXCEEDED",
  "UNIMPLEMENTED",
  "INTERNAL",
  "UNAVAILABLE",
  "DATA_LOSS",
]);

/**
 * Returns the function that starts the spans of a package. They belong to the process's
 * TracerProvider, which may be registered later.
 *
 * @param scope Name of the package.
 */
export function tracerOf(scope: string): StartSpan {
  return (name, options) => start(scope, name, options);
}

/**
 * Returns false if the spans of requests would record nothing and pass nothing on, because no SDK of OpenTelemetry is
 * registered. Each span costs half a kilobyte, which counts in a flood of calls.
 */
export function isTracing(): boolean {
  const provider = trace.getTracerProvider();
  const isProvided =
    !(provider instanceof ProxyTracerProvider) || provider.getDelegate() !== noProvider;
  return isProvided || propagation.fields().length > 0;
}

/** Returns metadata with which a request continues the active trace; empty if no trace is active. */
export function traceMetadata(): Readonly<Record<string, string>> {
  return metadataOf(context.active());
}

/** Returns the attributes of a client, from its address and port. */
export function clientOf(address: string): SpanAttributes {
  const [, host, port] = /^(.+):(\d+)$/.exec(address) ?? [];
  return host === undefined
    ? { "client.address": address }
    : { "client.address": host.replace(/^\[(.*)\]$/, "$1"), "client.port": Number(port) };
}

/** Calls a function outside the active trace. */
export function detached<T>(run: () => T): T {
  return context.with(ROOT_CONTEXT, run);
}

function start(scope: string, name: string, options: SpanOptions): TraceSpan {
  const { kind, parent, links = [], attributes = {} } = options;
  const span = trace
    .getTracer(scope)
    .startSpan(
      name,
      { kind: kinds[kind], links: links.flatMap(linkTo), attributes },
      contextOf(parent),
    );
  let isEnded = false;
  return {
    isRecording: span.isRecording(),
    traceparent: traceparentOf(span.spanContext()),
    get metadata() {
      return metadataOf(trace.setSpan(ROOT_CONTEXT, span));
    },
    link(traceparent) {
      for (const link of linkTo(traceparent)) {
        span.addLink(link);
      }
    },
    end(error, more = {}) {
      if (isEnded) {
        return;
      }
      isEnded = true;
      span.setAttributes(more);
      const code = codeOf(error);
      if (kind !== "consumer") {
        span.setAttribute("rpc.response.status_code", code);
      }
      if (error !== undefined && (kind !== "server" || serverFaults.has(code as StatusCode))) {
        span.setAttribute("error.type", code);
        span.setStatus({ code: SpanStatusCode.ERROR, message: error.message });
      }
      span.end();
    },
  };
}

function codeOf(error: Error | undefined): StatusCode | "OK" {
  if (error === undefined) {
    return "OK";
  }
  return isDmEnvRpcError(error) ? error.code : "UNKNOWN";
}

const ofMap: TextMapGetter<ReadonlyMap<string, string>> = {
  get: (metadata, name) => metadata.get(name.toLowerCase()),
  keys: (metadata) => [...metadata.keys()],
};

function contextOf(parent: SpanOptions["parent"]): Context {
  if (typeof parent !== "string") {
    return parent === undefined ? ROOT_CONTEXT : propagation.extract(ROOT_CONTEXT, parent, ofMap);
  }
  const spanContext = parsed(parent);
  return spanContext === undefined ? ROOT_CONTEXT : trace.setSpanContext(ROOT_CONTEXT, spanContext);
}

function linkTo(traceparent: string | undefined): Link[] {
  const linked = traceparent === undefined ? undefined : parsed(traceparent);
  return linked === undefined ? [] : [{ context: linked }];
}

/** Returns the headers that the process's propagator injects and that can be metadata of a call. */
function metadataOf(of: Context): Readonly<Record<string, string>> {
  const carrier: Record<string, string> = {};
  propagation.inject(of, carrier, {
    set(into, name, value) {
      if (/^(?!grpc-)[a-z0-9_.-]+$/i.test(name) && /^[\x20-\x7e]*$/.test(value)) {
        into[name.toLowerCase()] = value;
      }
    },
  });
  return carrier;
}

/** Reads a `traceparent` of version 00: 55 characters. */
function parsed(traceparent: string): SpanContext | undefined {
  const [, traceId = "", spanId = "", flags = ""] =
    /^00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$/.exec(traceparent) ?? [];
  const spanContext = { traceId, spanId, traceFlags: Number.parseInt(flags, 16), isRemote: true };
  return isSpanContextValid(spanContext) ? spanContext : undefined;
}

function traceparentOf(spanContext: SpanContext): string | undefined {
  if (!isSpanContextValid(spanContext)) {
    return undefined;
  }
  const { traceId, spanId, traceFlags } = spanContext;
  return `00-${traceId}-${spanId}-${(traceFlags & 0xff).toString(16).padStart(2, "0")}`;
}
