// SPDX-License-Identifier: Apache-2.0

import { join } from "node:path";
import { run } from "@dm-env-rpc/tests-processes";
import { root } from "./paths.ts";

/** Returns the output of an app's `--help`, with spaces around every flag. */
export async function appHelp(app: string): Promise<string> {
  const help = await run(process.execPath, [join(root, "apps", app, "dist/main.js"), "--help"]);
  return help.replaceAll(/[\s,]+/g, " ");
}
