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
 * Returns the message of a value that an author's code has thrown, for agents: without the lines of a stack and
 * without absolute paths. The error that has the value as its cause keeps both for the operator's log.
 */
export function publicMessageOf(thrown: unknown): string {
  return messageOf(thrown)
    .replace(stackLine, "")
    .replace(quotedPath, "$1<path>$1")
    .replace(barePath, "<path>");
}
