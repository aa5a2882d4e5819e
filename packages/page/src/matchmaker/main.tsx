// SPDX-License-Identifier: Apache-2.0
import "../page.css";
import { render } from "preact";
import { App } from "./app.tsx";

const root = document.getElementById("app");
if (root === null) {
  throw new Error('expected an element "app" in the page');
}
render(<App />, root);
