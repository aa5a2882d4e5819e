// SPDX-License-Identifier: Apache-2.0
import { connect } from "@dm-env-rpc/client";
import { serveRelay } from "@dm-env-rpc/relay";
import { defineWorld, serve, withDefault } from "@dm-env-rpc/server";
import { t, tensor } from "@dm-env-rpc/tensor-codec";
import {
  bundle,
  installedBrowsers,
  openPage,
  openScript,
} from "@dm-env-rpc/tests-processes/browser";
import { describe, expect, test } from "vitest";
import { says } from "./shown-text.ts";

const chromium = installedBrowsers.filter(({ name }) => name === "chrome");

const token = "token-of-the-page";

/** A page with a world of its own for each agent, whose specs depend on how the agent joined. */
const retina = `
  import { createEnvironmentServer, defineWorld, dialOut } from "@dm-env-rpc/server";
  import { t, tensor } from "@dm-env-rpc/tensor-codec";

  const retina = defineWorld({
    name: "retina",
    perAgent: true,
    joinSettings: { size: t.int32({ min: 1, max: 64 }) },
    actions: ({ join }) => ({ look: t.int32({ min: 0, max: join.size - 1 }) }),
    observations: ({ join }) => ({ pixels: t.uint8([join.size, join.size]), looks: t.int32() }),
    create() {
      let [size, looks, at] = [0, 0, 0];
      return {
        join: (_agent, settings) => void (size = settings.size),
        step(actions) {
          for (const { look = 0 } of actions.values()) {
            looks += 1;
            at = look;
          }
        },
        observe: {
          pixels: () => tensor("uint8", [size, size], new Uint8Array(size * size).fill(at)),
          looks: () => looks,
        },
      };
    },
  });
  const server = createEnvironmentServer({ worlds: [retina], premade: [{}] });
  globalThis.serveRetina = async (relay, token) => (await dialOut(server, { relay, token })).address;
`;

declare global {
  var serveRetina: (relay: string, token: string) => Promise<string>;
}

describe.each(installedBrowsers)(
  "a world per agent in a page of $name, behind a relay",
  (browser) => {
    test("gives each agent its own specs, observations and progress", async () => {
      const { script } = await bundle(retina, import.meta.dirname);
      await using opened = await openScript(browser, script, "serveRetina");
      await using relay = await serveRelay({
        programs: [{ name: "game", token }],
        allowedOrigins: [opened.origin],
        // A page that stalls with the machine is not lost.
        limits: { programPingMs: 60_000 },
      });
      const address = await opened.page.evaluate(
        (to, secret) => globalThis.serveRetina(to, secret),
        relay.url.replace("http", "ws"),
        token,
      );
      await using one = await connect(address);
      await using other = await connect(address.replace("http", "ws"));
      const small = await one.join("retina-1", { settings: { size: 8 } });
      const large = await other.join("retina-1", { settings: { size: 16 } });
      const shapes = [small, large].map(({ specs }) => specs.observations["pixels"]);
      expect(shapes).toMatchObject([{ shape: [8, 8] }, { shape: [16, 16] }]);
      await Promise.all([small.reset(), large.reset()]);
      await small.step({ look: 7 });
      const [near, far] = await Promise.all([small.step({ look: 5 }), large.step({ look: 15 })]);
      expect(near.observation).toMatchObject({ looks: 2, pixels: { shape: [8, 8] } });
      expect(far.observation).toMatchObject({ looks: 1, pixels: { shape: [16, 16] } });
      const pixels = [near, far].map(({ observation }) => observation["pixels"]);
      expect(pixels).toMatchObject([
        { data: new Uint8Array(64).fill(5) },
        { data: new Uint8Array(256).fill(15) },
      ]);
      await expect(small.step({ look: 15 })).rejects.toMatchObject({ specName: "look" });
      expect((await large.step({ look: 0 })).observation["looks"]).toBe(2);
    });
  },
);

/** The pixels of a square. */
function square(side: number) {
  return tensor("uint8", [side, side, 3], new Uint8Array(side * side * 3).fill(90));
}

/** A world of its own for each agent, in which the agent sees a square of its own size. */
const squares = {
  name: "squares",
  perAgent: true,
  joinSettings: { size: withDefault(t.int32({ min: 1, max: 64 }), 4) },
  actions: { grow: t.int8({ min: 0, max: 1 }) },
  observations: ({ join }: { readonly join: { readonly size: number } }) => ({
    pixels: t.uint8([join.size, join.size, 3]),
  }),
} as const;

const observed = defineWorld({
  ...squares,
  create() {
    let size = 0;
    return {
      join: (_agent, settings) => {
        size = settings.size;
      },
      step() {},
      observe: { pixels: () => square(size) },
    };
  },
});

/** The same, of which spectators see a picture that is ten times as large. */
const painted = defineWorld({
  ...squares,
  create() {
    let size = 0;
    return {
      join: (_agent, settings) => {
        size = settings.size;
      },
      step() {},
      observe: { pixels: () => square(size) },
      picture: () => square(10 * size),
    };
  },
});

describe.each(chromium)("the page in $name of a world per agent", (browser) => {
  test.each([
    ["picture", painted],
    ["observations", observed],
  ])(
    "shows the %s of the agent that a viewer chooses, and of a person's own",
    async (_what, world) => {
      await using server = await serve({
        worlds: [world],
        premade: [{}],
        page: true,
      });
      await using first = await connect(server.url);
      await using second = await connect(server.url);
      const agents = [
        await first.join("squares-1", { settings: { size: 8 } }),
        await second.join("squares-1", { settings: { size: 16 } }),
      ];
      await Promise.all(agents.map((agent) => agent.reset()));
      await using opened = await openPage(browser, `${server.url}/#/world/squares-1`);
      const { page } = opened;
      await says(page, "2 agents");
      /** Width of what the page shows, in pixels of the world. */
      const width = (): Promise<number | undefined> =>
        page.evaluate(() => {
          const canvas = document.querySelector<HTMLCanvasElement>("canvas.pixels");
          const image = document.querySelector<HTMLImageElement>("img.picture");
          return canvas?.width ?? (image === null ? undefined : image.naturalWidth / 10);
        });
      await expect.poll(width).toBe(8);
      const choose = (agent: string): Promise<void> =>
        page.$$eval(
          "tbody button",
          (buttons, text) => buttons.find(({ textContent }) => textContent === text)?.click(),
          agent,
        );
      await choose("2");
      await expect.poll(width).toBe(16);
      await choose("1");
      await expect.poll(width).toBe(8);
      await page.locator("::-p-text(Take a seat)").click();
      await says(page, "3 agents");
      await expect.poll(width).toBe(4);
      expect(opened.errors).toEqual([]);
    },
  );
});
