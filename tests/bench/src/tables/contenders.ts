// SPDX-License-Identifier: Apache-2.0
import type { Contender, Side } from "../harness/compare.ts";

const node = (peer: string): Side => ({ runtime: "node", peer });
const python: Side = { runtime: "python", peer: "official" };

const both = (id: string, label: string): Contender => ({
  id,
  label,
  server: node(id),
  client: node(id),
});

/** Contenders of the small step. */
export const smallContenders: readonly Contender[] = [
  both("ours", "dm-env-rpc for TypeScript"),
  {
    ...both("ours-each", "… a promise for each step"),
    server: node("ours"),
  },
  both("connect", "connect-node"),
  both("grpc-js", "grpc-js, protobuf-es"),
  { id: "python", label: "official Python", server: python, client: python },
  {
    id: "python-ours",
    label: "official Python on our server",
    server: node("ours"),
    client: python,
  },
  both("http2-echo", "floor: node:http2 echo"),
  both("tcp-echo", "floor: TCP ping-pong"),
  {
    id: "in-process",
    label: "in one process, no network",
    server: undefined,
    client: node("in-process"),
  },
];

/** Contenders of the large step. */
export const largeContenders: readonly Contender[] = [
  both("ours", "dm-env-rpc for TypeScript"),
  { ...both("ours-reuse", "… tensors reused"), server: node("ours") },
  both("connect-defaults", "connect-node, defaults (gzip)"),
  both("connect", "connect-node, no compression"),
  both("grpc-js", "grpc-js, protobuf-es"),
  { id: "python", label: "official Python", server: python, client: python },
  {
    id: "python-ours",
    label: "official Python on our server",
    server: node("ours"),
    client: python,
  },
  both("http2-echo", "floor: node:http2 echo, 4 MiB windows"),
  {
    id: "in-process",
    label: "in one process, no network",
    server: undefined,
    client: node("in-process"),
  },
];
