// SPDX-License-Identifier: Apache-2.0
import { globSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import GithubSlugger from "github-slugger";
import markdownIt from "markdown-it";

/** The folder of the repository. */
export const root: string = fileURLToPath(new URL("../../../", import.meta.url));

/** A fenced block of a page. */
export interface Block {
  /** The language of the fence; empty without one. */
  readonly language: string;
  /** The lines between the fences. */
  readonly lines: readonly string[];
  /** Line of the opening fence, from 1. */
  readonly line: number;
  /** The file that the block shows, if the paragraph before it ends with that name in backticks and a colon. */
  readonly file: string | undefined;
  /** The declarations of a comment `<!-- given: … -->` before the block, with their lines. */
  readonly given: { readonly lines: readonly string[]; readonly line: number } | undefined;
  /** The reason why a program is only type-checked, from a comment `<!-- not run: … -->` before the block. */
  readonly notRun: string | undefined;
}

/** A link of a page. */
export interface Link {
  readonly target: string;
  /** Line of its paragraph, from 1. */
  readonly line: number;
}

/** A page of prose. */
export interface Page {
  /** Path relative to the repository. */
  readonly path: string;
  readonly text: string;
  readonly blocks: readonly Block[];
  readonly links: readonly Link[];
  /** Code in prose and tables, with the line of its paragraph. */
  readonly spans: readonly { readonly text: string; readonly line: number }[];
  /** Anchors that links can refer to. */
  readonly anchors: ReadonlySet<string>;
}

const parser = markdownIt({ html: true });
const comment = /^<!-- (given|not run):([\s\S]*?)-->\s*$/;

/** Reads a page. */
export function readPage(path: string, text: string = readFileSync(root + path, "utf8")): Page {
  const slugger = new GithubSlugger();
  const blocks: Block[] = [];
  const links: Link[] = [];
  const spans: { text: string; line: number }[] = [];
  const anchors = new Set<string>();
  let line = 0;
  let isHeading = false;
  let file: string | undefined;
  let given: Block["given"];
  let notRun: string | undefined;
  for (const token of parser.parse(text, {})) {
    if (token.map !== null) {
      line = token.map[0] + 1;
    }
    if (token.type === "heading_open" || token.type === "heading_close") {
      isHeading = token.type === "heading_open";
    } else if (token.type === "inline") {
      if (isHeading) {
        anchors.add(slugger.slug(plainText(token.children ?? [])));
      }
      file = /`([^`\s]+)`:$/.exec(token.content)?.[1];
      for (const child of token.children ?? []) {
        const target = child.attrGet("href") ?? child.attrGet("src");
        if (target !== null) {
          links.push({ target: String(target), line });
        }
        if (child.type === "code_inline") {
          spans.push({ text: child.content, line });
        }
      }
    } else if (token.type === "html_block") {
      const [, kind, content = ""] = comment.exec(token.content) ?? [];
      if (kind === "given") {
        given = { lines: content.split("\n"), line };
      }
      if (kind === "not run") {
        notRun = content.trim();
      }
    } else if (token.type === "fence") {
      const [language = ""] = token.info.trim().split(/\s+/);
      const lines = token.content.split("\n").slice(0, -1);
      blocks.push({ language, lines, line, file, given, notRun });
      [file, given, notRun] = [undefined, undefined, undefined];
    }
  }
  return { path, text, blocks, links, spans, anchors };
}

function plainText(tokens: readonly { readonly type: string; readonly content: string }[]): string {
  return tokens.map(({ content }) => content).join("");
}

/** Reads every page of the repository. */
export function allPages(): Page[] {
  const folders = [
    "",
    "docs/**/",
    "packages/*/",
    "packages/*/golden/",
    "apps/*/",
    "examples/*/",
    "deploy/**/",
    "python/",
  ];
  return folders
    .flatMap((folder) => globSync(`${folder}*.md`, { cwd: root }))
    .filter((path) => !path.includes("node_modules") && !path.startsWith("docs/api/"))
    .sort()
    .map((path) => readPage(path));
}

/** Formats a place so that editors and terminals can open it. */
export function at(page: Pick<Page, "path">, line: number): string {
  return `${page.path}:${line}`;
}
