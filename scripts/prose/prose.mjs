// SPDX-License-Identifier: Apache-2.0
import markdownIt from "markdown-it";
import { parseSync } from "oxc-parser";

/**
 * Finds the prose of a source file or page.
 *
 * @returns Passages of running text. `text` has the length of the source that it stands for, so that an
 *   offset in it is one in the file; markers, code and links are blanked. `isDocstring` is true for the
 *   documentation of a declaration.
 */
export function proseOf(path, source) {
  if (path.endsWith(".md")) {
    return passagesOfMarkdown(source);
  }
  if (path.endsWith(".py")) {
    return passagesOfPython(source);
  }
  if (path.endsWith(".proto")) {
    return passagesOfProto(source);
  }
  return passagesOfScript(path, source);
}

function passagesOfScript(path, source) {
  const { comments, errors } = parseSync(path, source);
  if (errors.length > 0) {
    throw new Error(`${path} cannot be parsed: ${errors[0].message}`);
  }
  return joinLines(
    source,
    comments.map(({ type, value, start, end }) => ({
      start,
      end,
      isDocstring: type === "Block" && value.startsWith("*"),
    })),
  );
}

/** Every comment before a declaration is its documentation, as buf's own lint has it. */
function passagesOfProto(source) {
  const tokens = /"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|\/\/[^\n]*|\/\*[\s\S]*?\*\//g;
  const comments = [...source.matchAll(tokens)].filter(([text]) => text.startsWith("/"));
  return joinLines(
    source,
    comments.map(({ 0: text, index }) => ({
      start: index,
      end: index + text.length,
      isDocstring: true,
    })),
  );
}

function passagesOfPython(source) {
  const tokens =
    /[rbuf]*("""|''')(?:[^\\]|\\[\s\S])*?\1|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|#[^\n]*/gi;
  const found = [];
  for (const { 0: text, 1: quotes, index } of source.matchAll(tokens)) {
    // A docstring is a statement of its own: only space precedes it on its line.
    const isStatement = /(^|\n)[ \t]*$/.test(source.slice(0, index));
    const isDocstring = quotes !== undefined && isStatement;
    if (isDocstring || text.startsWith("#")) {
      found.push({ start: index, end: index + text.length, isDocstring });
    }
  }
  return joinLines(source, found);
}

/** Makes one passage of the line comments that follow each other on lines of their own. */
function joinLines(source, comments) {
  const passages = [];
  for (const comment of comments) {
    const last = passages.at(-1);
    const isLine = /^(\/\/|#)/.test(source.slice(comment.start, comment.start + 2));
    const continues = last?.isLine && /^\n[ \t]*$/.test(source.slice(last.end, comment.start));
    if (isLine && continues) {
      last.end = comment.end;
    } else {
      passages.push({ ...comment, isLine });
    }
  }
  return passages.map(({ start, end, isDocstring }) => ({
    start,
    isDocstring,
    text: source
      .slice(start, end)
      .replace(/^[rbuf]*("""|''')|("""|''')$/gi, blank)
      .replace(/^[ \t]*(\/\*\*?|\*\/|\*(?!\/)|\/\/|#!?)|\*\/$/gm, blank)
      .replace(/@example\b[\s\S]*?(?=^\s*@\w|(?![\s\S]))/gm, blank)
      .replace(/```[\s\S]*?```/g, blank)
      .replace(/`[^`]*`|\{@link[^}]*\}/g, cover),
  }));
}

function passagesOfMarkdown(source) {
  const starts = [0];
  for (const { index } of source.matchAll(/\n/g)) {
    starts.push(index + 1);
  }
  const passages = [];
  for (const { type, map } of markdownIt({ html: true }).parse(source, {})) {
    // The cells of a table have no place of their own: their row is the passage.
    if (map !== null && (type === "inline" || type === "tr_open")) {
      const start = starts[map[0]];
      const text = source
        .slice(start, starts[map[1]])
        .replace(/(`+)[\s\S]*?\1|\]\([^)]*\)|<[^>]*>/g, cover);
      passages.push({ start, isDocstring: false, text });
    }
  }
  return passages;
}

function blank(text) {
  return text.replace(/\S/g, " ");
}

/** Code in a sentence counts as a word of it, but never as one that a rule matches. */
function cover(text) {
  return text.replace(/\S/g, "·");
}
