// SPDX-License-Identifier: Apache-2.0
import type { Open } from "@dm-env-rpc/protocol/relay";
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { later } from "../internal/turns/later.ts";
import { defaultMaxMessageBytes } from "../limits/limits.ts";
import { connecting } from "../open/connecting.ts";
import type { ConnectionOptions } from "../open/open-options.ts";
import { openPlatformWebSocket } from "../open/platform-web-socket.ts";
import { parseAddress } from "../stream/address.ts";
import { type CallCodecs, defaultCodecs } from "../stream/call-codecs.ts";
import type { ServerStream } from "../stream/message-stream.ts";
import { webSocket } from "../websocket/web-socket.ts";
import { type Socket, WebSocketStream } from "../websocket/websocket-stream.ts";
import { Link, relayPath, relaySubprotocol } from "./link.ts";

/** Number of the relay's ping intervals without a frame after which the connection is closed. */
const silentIntervals = 3;

/** Options of `dialRelay`. */
export interface DialRelayOptions extends ConnectionOptions {
  /** Secret that the relay's operator has issued for this program, or for several programs. */
  readonly token: string;
  /**
   * 16 random bytes that tell this program from others with the same token. Use the same bytes for every connection: a
   * new connection replaces the earlier one.
   */
  readonly instance: Uint8Array;
  /** Takes over the stream of an agent. Called synchronously with each stream; must not throw. */
  readonly onStream: (stream: ServerStream) => void;
  /** Codecs of messages. Default: tensor-codec's codecs with their default limits. */
  readonly codecs?: CallCodecs | undefined;
  /** Maximum size of a message, in bytes. Default 64 MiB. */
  readonly maxMessageBytes?: number | undefined;
}

/** A program's place at a relay. */
export interface RelayPlace {
  /** The program's name at the relay. */
  readonly program: string;
  /** Address at which agents reach the program. */
  readonly address: string;
  /** Resolves with the reason when the connection to the relay, and with it every stream, is lost. */
  readonly lost: Promise<DmEnvRpcError>;
  /**
   * Closes the connection and gives up the place. Agents' streams end with UNAVAILABLE, as if the server had died. The
   * relay keeps the place's name and port for a while, for a program with the same token.
   */
  close(error: DmEnvRpcError): void;
}

/**
 * Dials out to a relay over the platform's own WebSocket, and passes the streams of agents to `onStream`.
 *
 * @param address `ws://host:port` or `wss://host:port`.
 * @throws DmEnvRpcError INVALID_ARGUMENT for a bad address, UNAUTHENTICATED for a wrong token, UNAVAILABLE if no
 * relay answers, DEADLINE_EXCEEDED if the WebSocket, or then the relay's welcome, takes longer than `connectTimeoutMs`,
 * CANCELLED by the signal.
 */
export async function dialRelay(address: string, options: DialRelayOptions): Promise<RelayPlace> {
  const parsed = parseAddress(address);
  if (parsed.carrier !== "websocket") {
    throw new DmEnvRpcError(
      "INVALID_ARGUMENT",
      `address of a relay: expected "ws://host:port" or "wss://host:port", received ${JSON.stringify(address)}`,
      { origin: "client" },
    );
  }
  const { token, instance, onStream, codecs = defaultCodecs() } = options;
  const { maxMessageBytes = defaultMaxMessageBytes } = options;
  const socket = await openPlatformWebSocket(parsed, relayPath, [relaySubprotocol], options);
  return await connecting<RelayPlace>(parsed, options, ({ succeed, fail }) => {
    let tellLost: (error: DmEnvRpcError) => void = fail;
    let silence: ReturnType<typeof setTimeout> | undefined;
    let silentMs = 0;
    const listenOn = (): void => {
      clearTimeout(silence);
      if (silentMs > 0) {
        silence = setTimeout(giveUpIfSilent, silentMs);
      }
    };
    /** Closes the link. Reads the socket first, because frames may have arrived while this process was busy. */
    const giveUpIfSilent = (): void => {
      const overdue = silence;
      later(() =>
        later(() => {
          if (silence === overdue) {
            link.close(silentFor(parsed.authority, silentMs));
          }
        }),
      );
    };
    const accept = ({ peerAddress, metadata }: Open, socket: Socket): void => {
      const stream = new WebSocketStream({
        socket,
        side: "server",
        decoder: codecs.request,
        encoder: codecs.response,
        maxMessageBytes,
        peerName: `the client at ${peerAddress}`,
      });
      const peer = {
        address: peerAddress,
        metadata: new Map(Object.entries(metadata)),
        certificate: undefined,
      };
      onStream(Object.assign(stream, { peer }));
    };
    const link = new Link({
      socket: webSocket(socket),
      side: "program",
      peerName: `the relay at ${parsed.authority}`,
      maxMessageBytes,
      onOpen: accept,
      onActivity: listenOn,
      onWelcome: ({ program, address, pingIntervalMs }) => {
        silentMs = pingIntervalMs * silentIntervals;
        listenOn();
        const lost = new Promise<DmEnvRpcError>((resolve) => {
          tellLost = resolve;
        });
        succeed({ program, address, lost, close: (error) => link.close(error) });
      },
      onClose: (error) => {
        clearTimeout(silence);
        silentMs = 0;
        tellLost(error);
      },
    });
    link.hello({ token, instance });
    return () => link.close(new DmEnvRpcError("CANCELLED", "the program stopped dialling"));
  });
}

function silentFor(authority: string, silentMs: number): DmEnvRpcError {
  return new DmEnvRpcError(
    "DEADLINE_EXCEEDED",
    `the relay at ${authority} sent nothing for ${silentMs} ms`,
    { origin: "connection" },
  );
}
