// SPDX-License-Identifier: Apache-2.0
import { once } from "node:events";
import { type IncomingMessage, request as requestHttp } from "node:http";
import { request as requestHttps } from "node:https";
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { messageOf } from "@dm-env-rpc/transport/internal";

/** Credentials and time limit of a request. */
export interface PostOptions {
  readonly token: string | undefined;
  /** Authority that issued the server's certificate, as PEM. */
  readonly ca: string | undefined;
  readonly signal: AbortSignal;
}

/** Maximum number of characters of an answer. */
const maxAnswer = 1024 * 1024;

/**
 * Posts JSON on a new connection. It uses node:http, because Node's `fetch` has no option for an
 * authority.
 *
 * @returns The status code and the JSON of the answer; `json` is undefined if the answer is not JSON.
 * @throws DmEnvRpcError UNAVAILABLE if the connection fails, the answer is too long, or no complete answer
 *   arrives in time.
 */
export async function postJson(
  url: URL,
  content: object,
  { token, ca, signal }: PostOptions,
): Promise<{ readonly code: number; readonly json: unknown }> {
  const body = JSON.stringify(content);
  const headers = {
    "content-type": "application/json",
    accept: "application/json",
    "content-length": Buffer.byteLength(body),
    ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
  };
  const options = { method: "POST", agent: false, headers, signal } as const;
  try {
    const request =
      url.protocol === "http:"
        ? requestHttp(url, options)
        : requestHttps(url, { ...options, ...(ca === undefined ? {} : { ca }) });
    const responded = once(request, "response");
    // Once the response has begun, its reader receives the error.
    request.on("error", () => {});
    request.end(body);
    const [response]: IncomingMessage[] = await responded;
    if (response === undefined) {
      throw new Error("expected a response");
    }
    return { code: response.statusCode ?? 0, json: parse(await textOf(response)) };
  } catch (error) {
    const why = signal.aborted ? "no answer in time" : messageOf(error);
    throw new DmEnvRpcError("UNAVAILABLE", `the Kubernetes API at ${url.origin} failed: ${why}`, {
      origin: "connection",
      cause: error,
    });
  }
}

async function textOf(response: IncomingMessage): Promise<string> {
  response.setEncoding("utf8");
  let text = "";
  for await (const chunk of response) {
    text += chunk;
    if (text.length > maxAnswer) {
      throw new Error(`expected an answer of at most ${maxAnswer} characters`);
    }
  }
  return text;
}

/** Parses JSON. The answer of a proxy may be plain text. */
function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
