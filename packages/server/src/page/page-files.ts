// SPDX-License-Identifier: Apache-2.0
import type { ServedFile } from "@dm-env-rpc/transport";
import { readPageFiles } from "@dm-env-rpc/transport/internal/page-files";

/** The files of the page, where `npm run build` puts them. */
const folder = new URL("../../dist/page/assets/", import.meta.url);

/**
 * Returns the files of the page that `serve({ page: true })` serves, by path, for your own
 * listener. The page calls `SpectatorService` and `Environment` on the port that serves it.
 *
 * @throws Error if the package was not built.
 */
export function pageFiles(): Promise<ReadonlyMap<string, ServedFile>> {
  return readPageFiles(folder);
}
