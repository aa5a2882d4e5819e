// SPDX-License-Identifier: Apache-2.0
import "uplot/dist/uPlot.min.css";
import "./page.css";
import { render } from "preact";
import { App } from "./app.tsx";
import { createSpectator } from "./spectator.ts";

const root = document.getElementById("app");
if (root === null) {
  throw new Error('expected an element "app" in the page');
}
render(<App spectator={createSpectator(location.origin, location.hash)} />, root);
