// SPDX-License-Identifier: Apache-2.0
/** Browsers for tests and measurements, and pages that run a script. */
export {
  chromium,
  type InstalledBrowser,
  installedBrowsers,
  missingBrowsers,
  type OpenedPage,
  openPage,
} from "./browsers.ts";
export { type Bundle, bundle, type OpenedScript, openScript } from "./scripts.ts";
