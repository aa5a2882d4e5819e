// SPDX-License-Identifier: Apache-2.0

import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { statusCodeOf } from "@dm-env-rpc/tensor-codec/proto";
import type { MessageCodec } from "@dm-env-rpc/tensor-codec/wire";
import { toConnectError } from "../internal/connect-errors.ts";
import { later } from "../internal/turns/later.ts";
import { defaultMaxMessageBytes, highWaterBytes } from "../limits/limits.ts";
import { tooLarge } from "../limits/too-large.ts";
import { type CallCodecs, defaultCodecs } from "./call-codecs.ts";
import {
  type ClientStream,
  type MessageStream,
  onlyReceiver,
  refuseTooLarge,
  type ServerStream,
  type StreamReceiver,
} from "./message-stream.ts";
import { UnreadMessages } from "./unread-messages.ts";

/** Maximum number of messages delivered in one turn before other streams run. */
const messagesPerTurn = 256;

/** Overhead of a queued message, in bytes. */
const messageOverheadBytes = 256;

/** Options of `memoryStreamPair`. */
export interface MemoryStreamOptions {
  /** Metadata of the call, names in lower case. Default: none. */
  readonly metadata?: ReadonlyMap<string, string> | undefined;
  /** Address of the client. Default `memory`. */
  readonly address?: string | undefined;
  /** Size limit of a message, in bytes. Default 64 MiB. */
  readonly maxMessageBytes?: number | undefined;
  /** Codecs of both directions. Default: tensor-codec's codecs with their default limits. */
  readonly codecs?: CallCodecs | undefined;
  /**
   * Runs a task asynchronously; tasks must run in the order of the calls. Default: runs it in a later turn of the event
   * loop, which lets timers, sockets and other streams run in between.
   */
  readonly schedule?: ((task: () => void) => void) | undefined;
}

/**
 * Creates a client's and a server's stream that are joined in memory. They behave like a gRPC call over a network, with
 * its errors: delivery is asynchronous and in order, buffers have the same bounds, and a server's `end` ends the call
 * for both sides.
 *
 * Every message is encoded when it is sent and decoded when it is delivered. So a world and an agent never share a
 * tensor's memory. Encoding changes a message here exactly as it would for a network.
 *
 * @example
 * const [stream, accepted] = memoryStreamPair();
 * server.accept(accepted);
 * const connection = await connect({ stream });
 */
export function memoryStreamPair(options: MemoryStreamOptions = {}): [ClientStream, ServerStream] {
  const codecs = options.codecs ?? defaultCodecs();
  const shared = {
    schedule: options.schedule ?? later,
    maxMessageBytes: options.maxMessageBytes ?? defaultMaxMessageBytes,
  };
  const client = new MemoryStream(shared, "client", codecs.response, codecs.request);
  const server = new MemoryStream(shared, "server", codecs.request, codecs.response);
  client.join(server);
  server.join(client);
  return [
    client,
    Object.assign(server, {
      peer: {
        address: options.address ?? "memory",
        metadata: options.metadata ?? new Map<string, string>(),
        certificate: undefined,
      },
    }),
  ];
}

interface Shared {
  readonly schedule: (task: () => void) => void;
  readonly maxMessageBytes: number;
}

/** The methods of one side that the other side calls. */
interface Other {
  /** Queues a message; returns true if there is room for more. */
  take(bytes: Uint8Array): boolean;
  /** Called by the other side when it ends. `status` is the error with which a server ends the call, if any. */
  takeEnd(status: DmEnvRpcError | undefined): void;
  takeAbort(error: Error): void;
  takeDrain(): void;
  /** Called by the other side once it has told its own receiver that this side has ended. */
  endDelivered(): void;
}

class MemoryStream<Received, Sent> implements MessageStream<Received, Sent>, Other {
  readonly #shared: Shared;
  readonly #side: "client" | "server";
  readonly #unread: UnreadMessages<Received>;
  readonly #encoder: MessageCodec<Sent>;
  #other: Other | undefined;
  #receiver: StreamReceiver<Received> | undefined;
  #inbox: Uint8Array[] = [];
  #inboxBytes = 0;
  #drainPending = false;
  #needsDrain = false;
  #paused = false;
  #scheduled = false;
  #ended = false;
  #peerEnded = false;
  #toldEnd = false;
  #closed = false;
  /** Error with which the server ends the call. The client has it only once the end has arrived. */
  #status: DmEnvRpcError | undefined;
  #failure: Error | undefined;

  constructor(
    shared: Shared,
    side: "client" | "server",
    decoder: MessageCodec<Received>,
    encoder: MessageCodec<Sent>,
  ) {
    this.#shared = shared;
    this.#side = side;
    this.#unread = new UnreadMessages(decoder);
    this.#encoder = encoder;
  }

  join(other: Other): void {
    this.#other = other;
  }

  start(receiver: StreamReceiver<Received>): void {
    this.#receiver = onlyReceiver(this.#receiver, receiver);
    if (this.#closed) {
      this.#scheduleClose();
    } else {
      this.#schedule();
    }
  }

  send(message: Sent): boolean {
    if (this.#closed || this.#ended || this.#other === undefined) {
      return true;
    }
    const bytes = new Uint8Array(this.#encoder.size(message));
    this.#encoder.write(message, bytes, 0);
    if (this.#other.take(bytes)) {
      return true;
    }
    this.#needsDrain = true;
    return false;
  }

  pause(): void {
    this.#paused = true;
  }

  resume(): void {
    if (this.#paused) {
      this.#paused = false;
      this.#schedule();
    }
  }

  end(status?: DmEnvRpcError): void {
    if (this.#closed || this.#ended) {
      return;
    }
    this.#ended = true;
    if (this.#side === "server") {
      this.#status ??= status;
      this.#forget();
    }
    this.#other?.takeEnd(this.#status);
  }

  abort(error: Error): void {
    if (this.#closed) {
      return;
    }
    this.#close(error);
    this.#other?.takeAbort(
      this.#side === "client"
        ? new DmEnvRpcError("CANCELLED", "the client reset the stream (CANCEL)", {
            origin: "client",
          })
        : statusOf(error),
    );
  }

  take(bytes: Uint8Array): boolean {
    if (this.#closed || this.#status !== undefined || (this.#ended && this.#side === "server")) {
      return true; // A server that has ended, or has refused a message, drops later messages.
    }
    this.#inbox.push(bytes);
    this.#inboxBytes += bytes.length + messageOverheadBytes;
    this.#schedule();
    if (this.#inboxBytes < highWaterBytes) {
      return true;
    }
    this.#drainPending = true;
    return false;
  }

  takeEnd(status: DmEnvRpcError | undefined): void {
    this.#peerEnded = true;
    this.#status = status;
    this.#schedule();
  }

  takeAbort(error: Error): void {
    this.#close(error);
  }

  takeDrain(): void {
    this.#shared.schedule(() => {
      if (this.#needsDrain && !this.#closed && !this.#ended) {
        this.#needsDrain = false;
        this.#receiver?.onDrain();
      }
    });
  }

  endDelivered(): void {
    if (this.#side === "server") {
      this.#close(this.#status);
    }
  }

  #schedule(): void {
    if (!this.#scheduled) {
      this.#scheduled = true;
      this.#shared.schedule(() => {
        this.#scheduled = false;
        this.#deliver();
      });
    }
  }

  #deliver(): void {
    const receiver = this.#receiver;
    if (receiver === undefined) {
      return;
    }
    for (let left = messagesPerTurn; !this.#paused && !this.#closed; left--) {
      if (this.#inbox.length > 0 && left === 0) {
        this.#schedule();
        return;
      }
      const bytes = this.#inbox.shift();
      if (bytes === undefined) {
        this.#deliverEnd(receiver);
        return;
      }
      this.#deliverMessage(receiver, bytes);
    }
  }

  #deliverMessage(receiver: StreamReceiver<Received>, bytes: Uint8Array): void {
    const { maxMessageBytes } = this.#shared;
    this.#inboxBytes -= bytes.length + messageOverheadBytes;
    if (this.#drainPending && this.#inboxBytes < highWaterBytes / 2) {
      this.#drainPending = false;
      this.#other?.takeDrain();
    }
    if (bytes.length <= maxMessageBytes) {
      this.#unread.deliver(receiver, bytes, 0, bytes.length);
      return;
    }
    const error = tooLarge(this.#side, `${bytes.length} bytes`, maxMessageBytes);
    if (this.#side === "client") {
      this.abort(error);
      return;
    }
    this.#status = error;
    this.#toldEnd = true;
    this.#forget();
    refuseTooLarge(receiver, error);
  }

  #deliverEnd(receiver: StreamReceiver<Received>): void {
    if (!this.#peerEnded || this.#toldEnd) {
      return;
    }
    this.#toldEnd = true;
    const status = this.#status && statusOf(this.#status);
    if (status === undefined) {
      receiver.onEnd();
    }
    this.#other?.endDelivered();
    if (this.#side === "client") {
      this.#close(status);
    }
  }

  #close(error: Error | undefined): void {
    if (this.#closed) {
      return;
    }
    this.#closed = true;
    this.#failure = error;
    this.#forget();
    if (this.#receiver !== undefined) {
      this.#scheduleClose();
    }
  }

  #scheduleClose(): void {
    this.#shared.schedule(() => this.#receiver?.onClose(this.#failure));
  }

  #forget(): void {
    this.#inbox = [];
    this.#inboxBytes = 0;
  }
}

/** Returns the error of an abort as the status that the client receives. */
function statusOf(error: Error): DmEnvRpcError {
  const { code, rawMessage } = toConnectError(error);
  return new DmEnvRpcError(statusCodeOf(code), rawMessage);
}
