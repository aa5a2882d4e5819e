// SPDX-License-Identifier: Apache-2.0
import { createRegistry, type DescFile, type Registry, toBinary } from "@bufbuild/protobuf";
import { FileDescriptorProtoSchema } from "@bufbuild/protobuf/wkt";
import type { ConnectRouter, HandlerContext } from "@connectrpc/connect";
import { ServerReflection } from "@dm-env-rpc/protocol/reflection";
import { ServerReflection as ServerReflectionV1Alpha } from "@dm-env-rpc/protocol/reflection-v1alpha";
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { statusCodes } from "@dm-env-rpc/tensor-codec/proto";
import { type ListenOptions, peerOfCall } from "@dm-env-rpc/transport";
import { NetworkCounts, networkOf, ThreadShare } from "@dm-env-rpc/transport/internal";

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

const reflectionPrefix = "/grpc.reflection.";

/** Size limit of a request of reflection or health, which contains only names. */
export const maxQuestionBytes: number = 64 * 1024;

/**
 * Adds gRPC reflection (v1 and v1alpha) to a router. It describes every service that the router has
 * when the first request arrives, and `files`. `serve` includes it.
 */
export function addReflection(router: ConnectRouter, files: readonly DescFile[]): void {
  let described: Described | undefined;
  const share = new ThreadShare();
  async function* answers<
    Request extends { readonly host: string; readonly messageRequest: Question },
  >(requests: AsyncIterable<Request>, { values }: HandlerContext) {
    const network = networkOf(peerOfCall(values).address);
    for await (const request of requests) {
      // Without this wait, Connect's library would answer all requests that arrive together in one turn of the event loop.
      while (share.isOver) {
        await new Promise<void>((resolve) => share.wait(network, resolve));
      }
      share.count();
      described ??= describe(router, files);
      yield {
        validHost: request.host,
        originalRequest: request,
        messageResponse: answerQuestion(described, request.messageRequest),
      };
    }
  }
  const limits = { readMaxBytes: maxQuestionBytes };
  router.service(ServerReflection, { serverReflectionInfo: answers }, limits);
  router.service(ServerReflectionV1Alpha, { serverReflectionInfo: answers }, limits);
}

/**
 * Creates the admission of a server's calls, which limits the calls of reflection.
 *
 * @returns The `onCall` of a listener.
 */
export function admitReflection(): NonNullable<ListenOptions["onCall"]> {
  let calls = 0;
  const byNetwork = new NetworkCounts();
  return ({ path, peer }) => {
    if (!path.startsWith(reflectionPrefix)) {
      return () => {};
    }
    if (calls >= maxReflectionCalls) {
      throw tooManyCalls(`at most ${maxReflectionCalls} at a time`);
    }
    if (byNetwork.of(peer.address) >= maxCallsPerAddress) {
      throw tooManyCalls(`at most ${maxCallsPerAddress} at a time from one address`);
    }
    calls += 1;
    const uncount = byNetwork.add(peer.address);
    return () => {
      calls -= 1;
      uncount();
    };
  };
}

function tooManyCalls(expected: string): DmEnvRpcError {
  return new DmEnvRpcError(
    "RESOURCE_EXHAUSTED",
    `too many calls of reflection: expected ${expected}, received one more; end some, or try again later`,
  );
}

/** Services and types for reflection. */
interface Described {
  readonly services: readonly string[];
  readonly files: ReadonlyMap<string, DescFile>;
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
  return {
    services: [...services].map(({ typeName }) => typeName).sort(),
    files,
    encoded: new Map(),
    types: createRegistry(...files.values()),
  };
}

function answerQuestion(described: Described, question: Question): Answer {
  const { services, files, types } = described;
  switch (question.case) {
    case "listServices":
      return {
        case: "listServicesResponse",
        value: { service: services.map((name) => ({ name })) },
      };
    case "fileByFilename":
      return fileAnswer(described, files.get(question.value), question.value);
    case "fileContainingSymbol":
      return fileAnswer(described, fileOf(types, question.value), question.value);
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

/** Returns the file that declares a type, a service, or one of their members. */
function fileOf(types: Registry, symbol: string): DescFile | undefined {
  for (let name = symbol.replace(/^\./, ""); name !== ""; name = parentOf(name)) {
    const known = types.get(name);
    if (known !== undefined) {
      return hasMember(known, symbol, name) ? known.file : undefined;
    }
  }
  return undefined;
}

function parentOf(name: string): string {
  return name.slice(0, Math.max(0, name.lastIndexOf(".")));
}

function hasMember(
  known: NonNullable<ReturnType<Registry["get"]>>,
  symbol: string,
  name: string,
): boolean {
  const member = symbol.replace(/^\./, "").slice(name.length + 1);
  if (member === "") {
    return true;
  }
  switch (known.kind) {
    case "service":
      return known.methods.some((method) => method.name === member);
    case "message":
      return (
        known.fields.some((field) => field.name === member) ||
        known.oneofs.some((oneof) => oneof.name === member)
      );
    case "enum":
      return known.values.some((value) => value.name === member);
    default:
      return false;
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
