// SPDX-License-Identifier: Apache-2.0
import { declareValuePlugin, PluginKind } from "@stryker-mutator/api/plugin";

/**
 * Leaves sentences alone: templates, and strings with a space. They are texts of errors and
 * events, which tests hold by their codes and names; dtypes, states and kinds have no space.
 */
export const strykerPlugins = [
  declareValuePlugin(PluginKind.Ignore, "prose", {
    shouldIgnore(path) {
      const { node } = path as { node?: { type: string; value?: unknown } };
      const isProse =
        node?.type === "TemplateLiteral" ||
        (node?.type === "StringLiteral" && String(node.value).includes(" "));
      return isProse ? "a text for people" : undefined;
    },
  }),
];
