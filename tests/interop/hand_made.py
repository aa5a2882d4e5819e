# SPDX-License-Identifier: Apache-2.0
"""Hand-made protobuf: bytes that current generated code does not write, and a stream for them."""

import queue
import struct

import grpc


def varint(value):
    """Encodes a varint; negative numbers in 64 bits of two's complement."""
    value &= 2**64 - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field, value):
    return varint(field << 3) + varint(value)


def float32(field, value):
    return varint(field << 3 | 5) + struct.pack("<f", value)


def float64(field, value):
    return varint(field << 3 | 1) + struct.pack("<d", value)


def block(field, *parts):
    """Encodes bytes, a string, or a message made of parts."""
    data = b"".join(part.encode() if isinstance(part, str) else part for part in parts)
    return varint(field << 3 | 2) + varint(len(data)) + data


def entry(field, key, value):
    """Encodes an entry of a map whose values are messages; the key is a string or a UID."""
    return block(field, number(1, key) if isinstance(key, int) else block(1, key), block(2, value))


def fields(data):
    """Decodes the fields of a message: pairs of number and value, nested messages as bytes."""
    found, at = [], 0

    def read():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        tag = read()
        kind = tag & 7
        if kind == 0:
            value = read()
        else:
            size = {1: 8, 5: 4}.get(kind) or read()
            value = data[at : at + size]
            at += size
        found.append((tag >> 3, value))
    return found


class ByteStream:
    """A Process stream of plain grpcio that sends and receives bytes."""

    def __init__(self, address):
        self._channel = grpc.insecure_channel(address)
        self._requests = queue.Queue()
        process = self._channel.stream_stream("/dm_env_rpc.v1.Environment/Process")
        self._responses = process(iter(self._requests.get, None))

    def send(self, request):
        self._requests.put(request)
        return next(self._responses)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._requests.put(None)
        assert list(self._responses) == []
        self._channel.close()
