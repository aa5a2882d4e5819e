// SPDX-License-Identifier: Apache-2.0
import { createRegistry, type DescFile, type Registry, toBinary } from "@bufbuild/protobuf";
import { FileDescriptorProtoSchema } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, type ConnectRouter, type HandlerContext } from "@connectrpc/connect";
import { ServerReflection } from "@dm-env-rpc/protocol/reflection";
import { ServerReflection as ServerReflectionV1Alpha } from "@dm-env-rpc/protocol/reflection-v1alpha";
import { statusCodes } from "@dm-env-rpc/tensor-codec/proto";
import { peerOfCall } from "@dm-env-rpc/transport";
import { NetworkCounts, ThreadShare, turnKeyOf } from "@dm-env-rpc/transport/internal";

/** A request of v1 or v1alpha. */
type Question =
  | { readonly case: "listServices"; readonly value: string }
  | { readonly case: "fileByFilename"; readonly value: string }
  | { readonly case: "fileContainingSymbol"; readonly value: string }
  | {
      readonly case: "fileContainingExtension";
      readonly value: { readonly containingType: string; readonly extensionNumber: number };
    }
  | { readonly case: "allExtensionNumbersOfType"; readonly value: string }
  | { readonly case: undefined };

/** A response of v1 or v1alpha. */
type Answer =
  | { case: "listServicesResponse"; value: { service: { name: string }[] } }
  | { case: "fileDescriptorResponse"; value: { fileDescriptorProto: Uint8Array<ArrayBuffer>[] } }
  | {
      case: "allExtensionNumbersResponse";
      value: { baseTypeName: string; extensionNumber: number[] };
    }
  | { case: "errorResponse"; value: { errorCode: number; errorMessage: string } };

/**
 * Maximum number of concurrent calls of reflection. A call takes some 100 KB while its responses are
 * not read.
 */
const maxReflectionCalls = 64;

/** Of these, the calls of one IPv4 address or one IPv6 network of 64 bits. */
const maxCallsPerAddress = 16;

/** Size limit of a request of reflection or health, which contains only names. */
export const maxQuestionBytes: number = 64 * 1024;

/**
 * Adds gRPC reflection (v1 and v1alpha) to a router. It describes every service that the router has
 * when the first request arrives, and `files`. At most 64 calls of reflection are served at a time, and at most 16 of
 * one address. `serve` includes it.
 */
export function addReflection(router: ConnectRouter, files: readonly DescFile[]): void {
  let described: Described | undefined;
  const share = new ThreadShare();
  async function* answers<
    Request extends { readonly host: string; readonly messageRequest: Question },
  >(requests: AsyncIterable<Request>, { values }: HandlerContext) {
    const key = turnKeyOf(peerOfCall(values).address);
    for await (const request of requests) {
      // Otherwise, Connect's library would answer all requests that arrive together in one turn of the event loop.
      yield await share.run(key, () => {
        described ??= describe(router, files);
        return {
          validHost: request.host,
          originalRequest: request,
          messageResponse: answerQuestion(described, request.messageRequest),
        };
      });
    }
  }
  const limits = { readMaxBytes: maxQuestionBytes, requestGate: limitCalls() };
  router.service(ServerReflection, { serverReflectionInfo: answers }, limits);
  router.service(ServerReflectionV1Alpha, { serverReflectionInfo: answers }, limits);
}

/** Creates the gate that limits the concurrent calls of reflection, before their requests are read. */
function limitCalls(): (call: HandlerContext) => void {
  const calls = new NetworkCounts();
  return ({ values, signal }) => {
    const { address } = peerOfCall(values);
    if (calls.total >= maxReflectionCalls) {
      throw tooManyCalls(`at most ${maxReflectionCalls} at a time`);
    }
    if (calls.of(address) >= maxCallsPerAddress) {
      throw tooManyCalls(`at most ${maxCallsPerAddress} at a time from one address`);
    }
    if (!signal.aborted) {
      // Connect aborts the signal at the end of each call, however it ends.
      signal.addEventListener("abort", calls.add(address), { once: true });
    }
  };
}

function tooManyCalls(expected: string): ConnectError {
  return new ConnectError(
    `too many calls of reflection: expected ${expected}, received one more; end some, or try again later`,
    Code.ResourceExhausted,
  );
}

/** Services and types for reflection. */
interface Described {
  readonly services: readonly string[];
  /** Files by their names. */
  readonly files: ReadonlyMap<string, DescFile>;
  readonly symbols: ReadonlyMap<string, DescFile>;
  /** Cache of requested files, encoded with all their imports; encoding takes a millisecond. */
  readonly encoded: Map<DescFile, Uint8Array<ArrayBuffer>[]>;
  readonly types: Registry;
}

function describe(router: ConnectRouter, further: readonly DescFile[]): Described {
  const services = new Set(router.handlers.map(({ service }) => service));
  const files = new Map<string, DescFile>();
  const add = (file: DescFile): void => {
    if (files.has(file.proto.name)) {
      return;
    }
    files.set(file.proto.name, file);
    for (const dependency of file.dependencies) {
      add(dependency);
    }
  };
  for (const { file } of services) {
    add(file);
  }
  for (const file of further) {
    add(file);
  }
  const types = createRegistry(...files.values());
  return {
    services: [...services].map(({ typeName }) => typeName).sort(),
    files,
    symbols: filesBySymbol(types),
    encoded: new Map(),
    types,
  };
}

/** Answers a question about the services and types. */
export function answerQuestion(described: Described, question: Question): Answer {
  const { services, files, symbols, types } = described;
  switch (question.case) {
    case "listServices":
      return {
        case: "listServicesResponse",
        value: { service: services.map((name) => ({ name })) },
      };
    case "fileByFilename":
      return fileAnswer(described, files.get(question.value), question.value);
    case "fileContainingSymbol":
      return fileAnswer(described, symbols.get(question.value.replace(/^\./, "")), question.value);
    case "fileContainingExtension": {
      const { containingType, extensionNumber } = question.value;
      const type = types.getMessage(containingType);
      const extension = type && types.getExtensionFor(type, extensionNumber);
      return fileAnswer(
        described,
        extension?.file,
        `extension ${extensionNumber} of ${containingType}`,
      );
    }
    case "allExtensionNumbersOfType": {
      const baseTypeName = question.value;
      const type = types.getMessage(baseTypeName);
      if (type === undefined) {
        return notFound(baseTypeName);
      }
      const extensionNumber: number[] = [];
      for (const known of types) {
        if (known.kind === "extension" && known.extendee.typeName === baseTypeName) {
          extensionNumber.push(known.number);
        }
      }
      return { case: "allExtensionNumbersResponse", value: { baseTypeName, extensionNumber } };
    }
    case undefined:
      return failure(
        "INVALID_ARGUMENT",
        "expected one of the fields of message_request, received none",
      );
  }
}

/**
 * Returns the files by the symbols that they declare: types, services and their members. A request for a symbol thus
 * takes one lookup, however long the symbol is.
 */
function filesBySymbol(types: Registry): ReadonlyMap<string, DescFile> {
  const files = new Map<string, DescFile>();
  for (const type of types) {
    files.set(type.typeName, type.file);
    for (const { name } of membersOf(type)) {
      files.set(`${type.typeName}.${name}`, type.file);
    }
  }
  return files;
}

function membersOf(
  type: NonNullable<ReturnType<Registry["get"]>>,
): readonly { readonly name: string }[] {
  switch (type.kind) {
    case "service":
      return type.methods;
    case "message":
      return [...type.fields, ...type.oneofs];
    case "enum":
      return type.values;
    default:
      return [];
  }
}

function fileAnswer({ encoded }: Described, file: DescFile | undefined, asked: string): Answer {
  if (file === undefined) {
    return notFound(asked);
  }
  const fileDescriptorProto = encoded.get(file) ?? encodedWithImports(file);
  encoded.set(file, fileDescriptorProto);
  return { case: "fileDescriptorResponse", value: { fileDescriptorProto } };
}

function encodedWithImports(file: DescFile): Uint8Array<ArrayBuffer>[] {
  const files = new Set<DescFile>();
  const add = (one: DescFile): void => {
    files.add(one);
    for (const dependency of one.dependencies) {
      add(dependency);
    }
  };
  add(file);
  return [...files].map(({ proto }) => toBinary(FileDescriptorProtoSchema, proto));
}

function notFound(asked: string): Answer {
  return failure(
    "NOT_FOUND",
    `unknown symbol or file "${asked.slice(0, 200)}"; call list_services to list the services`,
  );
}

function failure(code: keyof typeof statusCodes, errorMessage: string): Answer {
  return { case: "errorResponse", value: { errorCode: statusCodes[code], errorMessage } };
}
