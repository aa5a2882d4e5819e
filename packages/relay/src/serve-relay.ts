// SPDX-License-Identifier: Apache-2.0
import type { ConnectRouter } from "@connectrpc/connect";
import type { Hello } from "@dm-env-rpc/protocol/relay";
import { DmEnvRpcError, isDmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import {
  type CloseOptions,
  isLoopback,
  type ListenOptions,
  type ListenTls,
  listen,
  type Peer,
  type ServerStream,
} from "@dm-env-rpc/transport";
import { ThreadShare, toError, turnKeyOf } from "@dm-env-rpc/transport/internal";
import {
  BufferedBytes,
  connectionBytes,
  Link,
  maxFrameBytes,
  rawCodecs,
  relayPath,
  relaySubprotocol,
  type Socket,
} from "@dm-env-rpc/transport/internal/relay";
import type { RelayEvent } from "./events.ts";
import { grantFinder, type ProgramGrant } from "./grants.ts";
import { type RelayLimits, relayLimits } from "./limits.ts";
import { Place } from "./place.ts";
import { type PortBounds, PortRange } from "./port-range.ts";
import { Turns } from "./turns.ts";

/** Metadata in which an agent names its program, if it dials the relay's own port. */
const programHeader = "dm-env-rpc-program";

/** Length of the random ID that identifies a program across its connections, in bytes. */
const instanceBytes = 16;

/**
 * Maximum number of streams and programs that are resumed in a turn of the event loop. They forward their messages only
 * after the task that resumes them, so `ThreadShare` cannot measure that time before it resumes the next.
 */
const resumedPerTurn = 32;

/** Hosts to listen on that clients cannot dial. */
const anyHosts: ReadonlySet<string> = new Set(["0.0.0.0", "::", "[::]"]);

/** Options of `serveRelay`. */
export interface RelayOptions {
  /** The programs that may dial in. */
  readonly programs: readonly ProgramGrant[];
  /** Address to listen on. Default 127.0.0.1. */
  readonly host?: string | undefined;
  /** Port for programs, and for agents that name their program in the metadata. Default 0: a free port. */
  readonly port?: number | undefined;
  /** Ports for agents, one for each program. Default: any free ports. */
  readonly programPorts?: PortBounds | undefined;
  /** Host in the addresses that the relay gives to programs and agents. Default: `host`. */
  readonly publicHost?: string | undefined;
  /** Serves TLS on all ports. Default: plain text. */
  readonly tls?: ListenTls | undefined;
  /** Listens beyond this machine without TLS: anyone on the network can read the traffic, including tokens. Default false. */
  readonly allowInsecure?: boolean | undefined;
  /** Origins of the pages that may dial in, as programs or as agents; `*` for all. Default: none. */
  readonly allowedOrigins?: readonly string[] | undefined;
  readonly limits?: Partial<RelayLimits> | undefined;
  /** Adds services to the relay's own port, such as health. */
  readonly routes?: ((router: ConnectRouter) => void) | undefined;
  /** Byte streams for methods of `routes`, such as those of `createHealthBoard` in `@dm-env-rpc/server`. */
  readonly byteStreams?: ListenOptions["byteStreams"] | undefined;
  /** Called on each event. Must not throw. */
  readonly onEvent?: ((event: RelayEvent) => void) | undefined;
}

/** The current state of a program at a relay. */
export interface RelayedProgram {
  readonly name: string;
  /** Address at which agents reach it. */
  readonly address: string;
  /** False while the program is disconnected and its place is kept. */
  readonly isConnected: boolean;
  /** Streams of agents. */
  readonly streams: number;
}

/** A relay on the network. */
export interface Relay extends AsyncDisposable {
  readonly host: string;
  readonly port: number;
  /** Such as `http://127.0.0.1:8970`; programs dial it with `ws` in place of `http`. */
  readonly url: string;
  /** The programs that have a place. */
  programs(): readonly RelayedProgram[];
  /**
   * Refuses programs and new streams, waits until all streams have ended or `graceMs` have passed, then closes the
   * rest: agents' streams end with UNAVAILABLE. Idempotent.
   */
  close(options?: CloseOptions): Promise<void>;
}

/**
 * Serves a relay: programs that accept no connections dial out to it (`dialOut` of `@dm-env-rpc/server`), and each gets
 * a port here, which agents dial like any server's. Clients need not know about the relay.
 *
 * @throws DmEnvRpcError if the port is taken or a certificate cannot be used.
 * @throws RangeError for a malformed grant, range of ports, host, origin or limit.
 * @throws Error if the host is not a loopback address and neither `tls` nor `allowInsecure` is set.
 * @example
 * const relay = await serveRelay({ programs: [{ name: "game", token }], port: 8970 });
 * console.log(`programs dial ${relay.url.replace("http", "ws")}`);
 */
export async function serveRelay(options: RelayOptions): Promise<Relay> {
  const { host = "127.0.0.1", publicHost = host, tls, onEvent: emit = () => {} } = options;
  if (tls === undefined && options.allowInsecure !== true && !isLoopback(host)) {
    throw new Error(
      `host of a relay in plain text: expected a loopback address, received "${host}"; ` +
        "give tls, or allowInsecure: true if the network can be trusted",
    );
  }
  if (anyHosts.has(publicHost)) {
    throw new RangeError(
      `public host of a relay: expected a host that agents can dial, received "${publicHost}"; set publicHost`,
    );
  }
  const limits = relayLimits(options.limits);
  const findGrant = grantFinder(options.programs);
  const ports = new PortRange(options.programPorts);
  const buffered = new BufferedBytes(limits);
  const share = new ThreadShare(undefined, resumedPerTurn);
  const places = new Set<Place>();
  const links = new Set<Link>();
  const reason = new DmEnvRpcError("UNAVAILABLE", "the relay is shutting down; try again later");
  let isClosing = false;

  const openPlace = async (grant: ProgramGrant, instance: string): Promise<Place> => {
    if (places.size >= limits.maxPrograms) {
      throw new DmEnvRpcError(
        "RESOURCE_EXHAUSTED",
        `too many programs: expected at most ${limits.maxPrograms}; try again later (limit: maxPrograms)`,
      );
    }
    const place = new Place({
      name: freeName(grant, places),
      grant,
      limits,
      buffered,
      share,
      emit,
      onExpired: () => close(place),
    });
    let port = 0;
    const close = async (place: Place): Promise<void> => {
      places.delete(place);
      await place.close(reason, { graceMs: 0 });
      ports.release(port);
    };
    places.add(place);
    place.reserve(instance);
    try {
      const onStream = (stream: ServerStream): void => place.accept(stream);
      const opened = await ports.take((port) => listener.addPort({ port, onStream }));
      port = opened.port;
      if (isClosing) {
        await opened.close({ graceMs: 0 });
        throw reason;
      }
      const shown =
        publicHost.includes(":") && !publicHost.startsWith("[") ? `[${publicHost}]` : publicHost;
      place.open(opened, `${tls === undefined ? "http" : "https"}://${shown}:${port}`);
      return place;
    } catch (error) {
      places.delete(place);
      ports.release(port);
      throw error;
    }
  };

  /** Finds the place of a program, or opens one. */
  const claim = async ({ token, instance: bytes }: Hello, instance: string): Promise<Place> => {
    const grant = findGrant(token);
    if (grant === undefined) {
      throw new DmEnvRpcError(
        "UNAUTHENTICATED",
        "token of a program: expected a token that this relay knows, received another; ask the relay's operator for one",
      );
    }
    if (bytes.length !== instanceBytes) {
      throw new DmEnvRpcError(
        "INVALID_ARGUMENT",
        `instance ID of a program: expected ${instanceBytes} random bytes, received ${bytes.length}; send the same ${instanceBytes} bytes on every connection`,
      );
    }
    if (isClosing) {
      throw reason;
    }
    const own = [...places].filter((place) => place.grant === grant);
    const kept = own.find((place) => place.isOf(instance)) ?? own.find((place) => place.isAway);
    if (kept !== undefined) {
      kept.reserve(instance);
      return kept;
    }
    const { name, maxPrograms = 1 } = grant;
    if (own.length >= maxPrograms) {
      throw new DmEnvRpcError(
        "RESOURCE_EXHAUSTED",
        `too many programs with the token of "${name}": expected at most ${maxPrograms}; close one, or raise its maxPrograms`,
      );
    }
    return await openPlace(grant, instance);
  };

  const acceptProgram = (socket: Socket, peer: Peer): void => {
    let place: Place | undefined;
    /** True if a frame has arrived since the last ping. */
    let isAlive = true;
    const turns = new Turns(share, turnKeyOf(peer.address), socket);
    const refuse = (error: DmEnvRpcError): void => {
      emit({ kind: "program-refused", from: peer.address, error });
      link.close(error);
    };
    const onHello = async (hello: Hello): Promise<void> => {
      clearTimeout(helloTimer);
      try {
        const instance = Buffer.from(hello.instance).toString("hex");
        const claimed = await claim(hello, instance);
        if (isClosing) {
          refuse(reason);
        } else if (links.has(link)) {
          place = claimed;
          place.attach(link, instance, peer.address);
          pings = setInterval(ping, limits.programPingMs);
        } else {
          claimed.leave();
        }
      } catch (thrown) {
        refuse(
          isDmEnvRpcError(thrown)
            ? thrown
            : new DmEnvRpcError("INTERNAL", toError(thrown).message, { cause: thrown }),
        );
      }
    };
    const ping = (): void => {
      if (isAlive) {
        isAlive = false;
        link.ping();
        return;
      }
      // The answer may have arrived while this process was busy: read the socket first.
      setImmediate(() =>
        setImmediate(() => {
          if (!isAlive) {
            link.close(
              new DmEnvRpcError(
                "DEADLINE_EXCEEDED",
                `the program did not answer a ping within ${limits.programPingMs} ms (limit: programPingMs)`,
              ),
            );
          }
        }),
      );
    };
    let pings: NodeJS.Timeout | undefined;
    const helloTimer = setTimeout(
      () =>
        refuse(
          new DmEnvRpcError(
            "DEADLINE_EXCEEDED",
            `the program did not introduce itself within ${limits.helloMs} ms (limit: helloMs)`,
          ),
        ),
      limits.helloMs,
    );
    const link = new Link({
      socket,
      side: "relay",
      peerName: `the program at ${peer.address}`,
      maxMessageBytes: limits.maxMessageBytes,
      maxUnsentBytes: limits.maxUnsentBytesPerProgram,
      openAccount: (holder) => buffered.open(connectionBytes(peer.address), holder),
      onHello: (hello) => void onHello(hello),
      onActivity: (bytes) => {
        isAlive = true;
        turns.count(bytes);
      },
      onClose: (error) => {
        clearTimeout(helloTimer);
        clearInterval(pings);
        links.delete(link);
        place?.detach(link, error);
      },
    });
    links.add(link);
  };

  const acceptAgent = (agent: ServerStream): void => {
    if (isClosing) {
      agent.abort(reason);
      return;
    }
    const name = agent.peer.metadata.get(programHeader);
    const place = [...places].find((place) => place.name === name);
    if (place !== undefined) {
      place.accept(agent);
      return;
    }
    agent.countRefused?.();
    agent.abort(
      name === undefined
        ? new DmEnvRpcError(
            "INVALID_ARGUMENT",
            `this is the port of a relay: expected the name of a program in the metadata "${programHeader}", received none; add it, or dial the program's own address`,
          )
        : new DmEnvRpcError(
            "NOT_FOUND",
            `no program "${name.slice(0, 80)}" is connected to this relay; check its name, or try again later`,
          ),
    );
  };

  const listener = await listen({
    ...limits,
    host,
    port: options.port ?? 0,
    tls,
    allowedOrigins: options.allowedOrigins,
    codecs: rawCodecs,
    buffered,
    routes: options.routes,
    byteStreams: options.byteStreams,
    onStream: acceptAgent,
    webSockets: new Map([
      [
        relayPath,
        { subprotocol: relaySubprotocol, maxMessageBytes: maxFrameBytes, accept: acceptProgram },
      ],
    ]),
    onError: (error) => emit({ kind: "transport-error", error }),
  });
  const shutDown = async (closing: CloseOptions): Promise<void> => {
    isClosing = true;
    const all = [...places];
    await Promise.all(all.map((place) => place.close(reason, closing)));
    places.clear();
    for (const link of [...links]) {
      link.close(reason);
    }
    await listener.close({ graceMs: 0 });
    buffered.stop();
  };
  let closed: Promise<void> | undefined;
  const close = (closing: CloseOptions = {}): Promise<void> => {
    closed ??= shutDown(closing);
    return closed;
  };
  return {
    host,
    port: listener.port,
    url: listener.url,
    programs: () =>
      [...places]
        .filter(({ address }) => address !== "")
        .map(({ name, address, isConnected, streams }) => ({
          name,
          address,
          isConnected,
          streams,
        })),
    close,
    [Symbol.asyncDispose]: () => close(),
  };
}

/** Returns a free name for a program of a grant: the grant's name, with a number if the grant allows several programs. */
function freeName({ name, maxPrograms = 1 }: ProgramGrant, places: Iterable<Place>): string {
  if (maxPrograms === 1) {
    return name;
  }
  const taken = new Set([...places].map((place) => place.name));
  let number = 1;
  while (taken.has(`${name}/${number}`)) {
    number += 1;
  }
  return `${name}/${number}`;
}
