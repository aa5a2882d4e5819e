// SPDX-License-Identifier: Apache-2.0
import { messageOf } from "@dm-env-rpc/transport/internal";

/** A line of a stack in a message. */
const stackLine = /\n[ \t]+at [^\n]*/g;

/** An absolute path in quotes, with spaces or without. */
const quotedPath = /(['"`])(?:file:\/\/\/?|[A-Za-z]:[\\/]|\\\\|\/)(?=[\w.@~])[^'"`\n]*\1/g;

/** An absolute path up to a space or a delimiter; punctuation at its end does not belong to it. */
const barePath =
  /(?<![\w.~/\\)\]>-])(?:file:\/\/\/?|[A-Za-z]:[\\/]|\\\\|\/)(?=[\w.@~])(?:[^\s'"`<>|;,()[\]{}]*[^\s'"`<>|;,()[\]{}.:!?])?/g;

/**
 * Returns the message of a value that an author's code has thrown, without stack lines and absolute
 * paths, for agents. The operator's log has both, in the value itself.
 */
export function publicMessageOf(thrown: unknown): string {
  return messageOf(thrown)
    .replace(stackLine, "")
    .replace(quotedPath, "$1<path>$1")
    .replace(barePath, "<path>");
}
