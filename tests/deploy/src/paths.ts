// SPDX-License-Identifier: Apache-2.0
import { fileURLToPath } from "node:url";

/** The folder of the repository. */
export const root = fileURLToPath(new URL("../../../", import.meta.url));

/** The folder of deployments. */
export const deploy = fileURLToPath(new URL("../../../deploy/", import.meta.url));

/** The tools of tests/deploy/requirements.txt and run.mjs. */
export const bin = fileURLToPath(new URL("../.venv/bin/", import.meta.url));
