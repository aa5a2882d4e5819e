// SPDX-License-Identifier: Apache-2.0
import { connect, type Socket } from "node:net";
import {
  frameFlags,
  frameHead,
  frameHeadBytes,
  frameTypes,
  grpcFrame,
  headersOfCall,
  http2Frame,
  preface,
  settingsFrame,
} from "@dm-env-rpc/tests-processes";
import type { Target } from "../attacks/attack.ts";

/** Path of the method that agents call. */
export const processPath = "/dm_env_rpc.v1.Environment/Process";

/** Identifiers of SETTINGS (RFC 9113, section 6.5.2). */
export const settingIds = { headerTableSize: 1, initialWindowSize: 4 } as const;

/** Largest size of a window in HTTP/2. */
const maxWindow: number = 2 ** 31 - 1;

/** Payload of the DATA frames of `send`: the size that every HTTP/2 peer accepts. */
const frameBytes = 16_384;

/** Maximum number of DATA bytes that are written before other work of this process runs. */
const burstBytes = 1024 * 1024;

/** Options of `Peer.connect`. */
export interface PeerOptions {
  /** SETTINGS of the client. Default: windows that never fill. */
  readonly settings?: readonly (readonly [id: number, value: number])[] | undefined;
}

interface Stream {
  credit: number;
  isOpen: boolean;
  /** Bytes of DATA that arrived; undefined if they are dropped. */
  received: Buffer | undefined;
}

/**
 * An HTTP/2 client over plain TCP that sends any bytes. It counts the server's answers. Only `send` respects the
 * server's windows.
 *
 * Every wait also ends with the attack and with the connection.
 */
export class Peer {
  readonly socket: Socket;
  readonly #target: Target;
  readonly #streams = new Map<number, Stream>();
  readonly #waiters = new Set<() => void>();
  #credit = 65_535;
  #initialCredit = 65_535;
  #nextStream = 1;
  #rest: Buffer = Buffer.alloc(0);
  #uncredited = 0;
  #isOpen = true;
  #hasSettings = false;
  #pongs = 0;

  private constructor(socket: Socket, target: Target) {
    this.socket = socket;
    this.#target = target;
    socket.on("data", (chunk) => this.#read(chunk));
    socket.on("drain", () => this.#wake());
    socket.once("close", () => {
      this.#isOpen = false;
      this.#wake();
    });
    void target.over.then(() => this.#wake());
  }

  /**
   * Connects, sends the preface and SETTINGS, and waits for the server's SETTINGS. Returns undefined if the server does
   * not accept the connection.
   */
  static async connect(target: Target, options: PeerOptions = {}): Promise<Peer | undefined> {
    const socket = await openSocket(target);
    if (socket === undefined) {
      return undefined;
    }
    const peer = new Peer(socket, target);
    const settings = options.settings ?? [[settingIds.initialWindowSize, maxWindow]];
    await peer.write(
      Buffer.concat([preface, settingsFrame(settings), windowUpdate(0, maxWindow - 65_535)]),
    );
    await peer.#until(() => peer.#hasSettings);
    return peer;
  }

  /** True while the connection is open and the attack continues. */
  get isOpen(): boolean {
    return this.#isOpen && !this.#target.isOver();
  }

  /** Returns the number of a new stream. */
  newStream(): number {
    const id = this.#nextStream;
    this.#nextStream += 2;
    return id;
  }

  /** True while the server has not ended the stream. */
  isStreamOpen(id: number): boolean {
    return this.isOpen && this.#streams.get(id)?.isOpen === true;
  }

  /** Opens a stream with the headers of a call. */
  async call(path: string = processPath, contentType?: string, extra?: Buffer): Promise<number> {
    const id = this.newStream();
    this.#streams.set(id, {
      credit: this.#initialCredit,
      isOpen: true,
      received: Buffer.alloc(0),
    });
    const headers = headersOfCall(path, contentType);
    await this.write(
      http2Frame(
        frameTypes.headers,
        frameFlags.endHeaders,
        id,
        extra === undefined ? headers : Buffer.concat([headers, extra]),
      ),
    );
    return id;
  }

  /** Drops the responses of a stream. */
  drop(id: number): void {
    const stream = this.#streams.get(id);
    if (stream !== undefined) {
      stream.received = undefined;
    }
  }

  /** Writes bytes and waits until they fit into the socket's buffer. */
  async write(bytes: Uint8Array): Promise<void> {
    if (!this.isOpen) {
      return;
    }
    this.#target.seen.sentBytes += bytes.length;
    this.socket.write(bytes);
    await this.#drained();
  }

  /** Writes the bytes again and again, until the attack ends or the connection closes. */
  async pour(next: () => Uint8Array): Promise<void> {
    while (this.isOpen) {
      await this.write(next());
    }
  }

  /**
   * Sends DATA within the server's windows.
   *
   * @returns False if the stream, the connection or the attack ended before all was sent.
   */
  async send(id: number, bytes: Uint8Array, flags = 0): Promise<boolean> {
    const stream = this.#streams.get(id);
    if (stream === undefined) {
      return false;
    }
    for (let at = 0; at < bytes.length; ) {
      await this.#until(() => !stream.isOpen || (stream.credit > 0 && this.#credit > 0));
      if (!stream.isOpen || !this.isOpen) {
        return false;
      }
      this.socket.cork();
      for (let burst = 0; burst < burstBytes && at < bytes.length; ) {
        const size = Math.min(frameBytes, bytes.length - at, stream.credit, this.#credit);
        if (size <= 0) {
          break;
        }
        const isLast = at + size === bytes.length;
        this.socket.write(frameHead(frameTypes.data, isLast ? flags : 0, id, size));
        this.socket.write(bytes.subarray(at, at + size));
        this.#target.seen.sentBytes += size;
        stream.credit -= size;
        this.#credit -= size;
        at += size;
        burst += size;
      }
      this.socket.uncork();
      await this.#drained();
    }
    return stream.isOpen && this.isOpen;
  }

  /** Sends a request in a gRPC frame; see `send`. */
  async request(id: number, body: Uint8Array): Promise<boolean> {
    return await this.send(id, grpcFrame(body));
  }

  /** Waits for the next gRPC message of a stream; undefined if it ends first. */
  async answer(id: number): Promise<Buffer | undefined> {
    const stream = this.#streams.get(id);
    const size = (): number => {
      const received = stream?.received;
      return received !== undefined && received.length >= 5 ? 5 + received.readUInt32BE(1) : 5;
    };
    const isHere = (): boolean => (stream?.received?.length ?? 0) >= size();
    await this.#until(() => isHere() || stream?.isOpen !== true);
    if (stream?.received === undefined || !isHere() || stream.received.length < 5) {
      return undefined;
    }
    const message = stream.received.subarray(5, size());
    stream.received = stream.received.subarray(size());
    return message;
  }

  /** Waits until the server has ended a stream. */
  async ended(id: number): Promise<void> {
    await this.#until(() => this.#streams.get(id)?.isOpen !== true);
  }

  /** Waits until the server has answered a ping, and so has received all that was written before. */
  async pong(): Promise<void> {
    const expected = this.#pongs + 1;
    await this.write(http2Frame(frameTypes.ping, 0, 0, Buffer.alloc(8)));
    await this.#until(() => this.#pongs >= expected);
  }

  /** Closes the connection without waiting for the server. */
  destroy(): void {
    this.socket.destroy();
  }

  /** Waits until the socket's buffer has room, and at least for a turn of the event loop. */
  async #drained(): Promise<void> {
    await new Promise((resolve) => setImmediate(resolve));
    await this.#until(() => !this.socket.writableNeedDrain);
  }

  async #until(holds: () => boolean): Promise<void> {
    while (this.isOpen && !holds()) {
      await new Promise<void>((resolve) => {
        this.#waiters.add(resolve);
      });
    }
  }

  #wake(): void {
    for (const waiter of this.#waiters) {
      waiter();
    }
    this.#waiters.clear();
  }

  #read(chunk: Buffer): void {
    let bytes = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
    while (bytes.length >= frameHeadBytes) {
      const end = frameHeadBytes + bytes.readUIntBE(0, 3);
      if (bytes.length < end) {
        break;
      }
      const stream = bytes.readUInt32BE(5) & 0x7fff_ffff;
      this.#receive(bytes[3] ?? 0, bytes[4] ?? 0, stream, bytes.subarray(frameHeadBytes, end));
      bytes = bytes.subarray(end);
    }
    this.#rest = bytes.length === 0 ? bytes : Buffer.from(bytes);
    this.#wake();
  }

  #receive(type: number, flags: number, id: number, payload: Buffer): void {
    const stream = this.#streams.get(id);
    const { seen } = this.#target;
    switch (type) {
      case frameTypes.data:
        seen.receivedBytes += payload.length;
        if (stream?.received !== undefined) {
          stream.received = Buffer.concat([stream.received, payload]);
        }
        this.#credited(payload.length);
        break;
      case frameTypes.settings:
        if ((flags & frameFlags.ack) === 0) {
          this.#readSettings(payload);
          this.socket.write(http2Frame(frameTypes.settings, frameFlags.ack, 0));
        }
        return;
      case frameTypes.ping:
        if ((flags & frameFlags.ack) !== 0) {
          this.#pongs += 1;
        } else {
          this.socket.write(http2Frame(frameTypes.ping, frameFlags.ack, 0, payload));
        }
        return;
      case frameTypes.windowUpdate: {
        const increment = payload.readUInt32BE(0);
        if (id === 0) {
          this.#credit += increment;
        } else if (stream !== undefined) {
          stream.credit += increment;
        }
        return;
      }
      case frameTypes.rstStream:
        seen.count(`RST_STREAM ${payload.readUInt32BE(0)}`);
        this.#close(stream);
        return;
      case frameTypes.goAway:
        seen.count(`GOAWAY ${payload.readUInt32BE(4)}`);
        return;
      default:
        break;
    }
    const carriesEnd = type === frameTypes.data || type === frameTypes.headers;
    if (carriesEnd && (flags & frameFlags.endStream) !== 0) {
      seen.count("ended");
      this.#close(stream);
    }
  }

  #close(stream: Stream | undefined): void {
    if (stream !== undefined) {
      stream.isOpen = false;
    }
  }

  #credited(size: number): void {
    this.#uncredited += size;
    if (this.#uncredited > 2 ** 24) {
      this.socket.write(windowUpdate(0, this.#uncredited));
      this.#uncredited = 0;
    }
  }

  #readSettings(payload: Buffer): void {
    for (let at = 0; at + 6 <= payload.length; at += 6) {
      if (payload.readUInt16BE(at) === settingIds.initialWindowSize) {
        const credit = payload.readUInt32BE(at + 2);
        for (const stream of this.#streams.values()) {
          stream.credit += credit - this.#initialCredit;
        }
        this.#initialCredit = credit;
      }
    }
    this.#hasSettings = true;
  }
}

/** Opens a TCP connection to the server; undefined if the server or the system refuses it. */
export async function openSocket(target: Target): Promise<Socket | undefined> {
  if (target.isOver()) {
    return undefined;
  }
  const socket = connect({
    host: target.host,
    port: target.port,
    localAddress: target.from,
    noDelay: true,
  });
  const isConnected = await new Promise<boolean>((resolve) => {
    socket.once("connect", () => resolve(true));
    socket.once("close", () => resolve(false));
    socket.on("error", (error: NodeJS.ErrnoException) => target.seen.count(`${error.code}`));
    void target.over.then(() => resolve(false));
  });
  if (!isConnected) {
    socket.destroy();
    return undefined;
  }
  target.seen.count("connected");
  return socket;
}

/** Creates a WINDOW_UPDATE frame. */
export function windowUpdate(stream: number, increment: number): Buffer {
  const payload = Buffer.alloc(4);
  payload.writeUInt32BE(increment);
  return http2Frame(frameTypes.windowUpdate, 0, stream, payload);
}
