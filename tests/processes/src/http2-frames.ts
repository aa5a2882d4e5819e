// SPDX-License-Identifier: Apache-2.0

/** First bytes of every HTTP/2 client. */
export const preface: Buffer = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");

/** Types of HTTP/2 frames (RFC 9113, section 6). */
export const frameTypes = {
  data: 0,
  headers: 1,
  priority: 2,
  rstStream: 3,
  settings: 4,
  pushPromise: 5,
  ping: 6,
  goAway: 7,
  windowUpdate: 8,
  continuation: 9,
} as const;

/** Flags of HTTP/2 frames; their meaning depends on the type. */
export const frameFlags = { ack: 1, endStream: 1, endHeaders: 4, padded: 8 } as const;

/** Bytes of a frame's head. */
export const frameHeadBytes = 9;

const nothing = Buffer.alloc(0);

/** Creates an HTTP/2 frame. */
export function http2Frame(
  type: number,
  flags: number,
  stream: number,
  payload: Uint8Array = nothing,
): Buffer {
  return Buffer.concat([frameHead(type, flags, stream, payload.length), payload]);
}

/** Creates the head of an HTTP/2 frame whose payload has `length` bytes, or only claims to have them. */
export function frameHead(type: number, flags: number, stream: number, length: number): Buffer {
  const head = Buffer.alloc(frameHeadBytes);
  head.writeUIntBE(length, 0, 3);
  head[3] = type;
  head[4] = flags;
  head.writeUInt32BE(stream, 5);
  return head;
}

/** Creates a SETTINGS frame of the given identifiers and values. */
export function settingsFrame(settings: readonly (readonly [id: number, value: number])[]): Buffer {
  const payload = Buffer.alloc(6 * settings.length);
  for (const [i, [id, value]] of settings.entries()) {
    payload.writeUInt16BE(id, 6 * i);
    payload.writeUInt32BE(value, 6 * i + 2);
  }
  return http2Frame(frameTypes.settings, 0, 0, payload);
}

/** A SETTINGS frame that changes nothing. */
export const emptySettings: Buffer = settingsFrame([]);

/** Encodes a header in HPACK; it is added to no table. */
export function literalHeader(name: string, value: string): Buffer {
  return Buffer.concat([Buffer.of(0), hpackString(name), hpackString(value)]);
}

/** Encodes a header in HPACK; it becomes the first entry of the dynamic table. */
export function indexedHeader(name: string, value: string): Buffer {
  return Buffer.concat([Buffer.of(0x40), hpackString(name), hpackString(value)]);
}

/** Encodes the headers of a gRPC call: `:method`, `:scheme`, `:path`, `:authority` and the content type. */
export function headersOfCall(path: string, contentType = "application/grpc"): Buffer {
  return Buffer.concat([
    Buffer.of(0x83, 0x86), // :method POST, :scheme http
    literalHeader(":path", path),
    literalHeader(":authority", "localhost"),
    literalHeader("content-type", contentType),
    literalHeader("te", "trailers"),
  ]);
}

function hpackString(text: string): Buffer {
  const bytes = Buffer.from(text);
  return Buffer.concat([hpackInteger(bytes.length), bytes]);
}

/** Encodes an integer with a prefix of seven bits (RFC 7541, section 5.1). */
function hpackInteger(value: number): Buffer {
  if (value < 127) {
    return Buffer.of(value);
  }
  const bytes = [127];
  let rest = value - 127;
  for (; rest >= 128; rest >>>= 7) {
    bytes.push((rest & 127) | 128);
  }
  return Buffer.from([...bytes, rest]);
}
