// SPDX-License-Identifier: Apache-2.0
import { defineEnvironment, serve } from "@dm-env-rpc/server";
import { t } from "@dm-env-rpc/tensor-codec";
import { chromium, openPage } from "@dm-env-rpc/tests-processes/browser";
import type { Options } from "../options.ts";

/** A press that has not reached the world by then is lost. */
const lostMs = 10_000;

declare global {
  /** Times of the presses, in ms since 1970. */
  var pressedAt: number[];
}

/** Presses keys on a server's page, and returns how long each takes to reach the world, in ms. */
export async function measurePresses(
  options: Options,
  onProgress: (text: string) => void,
): Promise<readonly number[]> {
  const presses = options.quick ? 100 : 1_000;
  let arrived: (at: number) => void = () => {};
  const keyed = defineEnvironment({
    name: "keyed",
    actions: { move: t.int8({ min: -1, max: 1 }) },
    observations: { at: t.int32() },
    controls: { a: { label: "Left", actions: { move: -1 } } },
    create() {
      let at = 0;
      return {
        reset: () => ({ at }),
        step() {
          arrived(performance.timeOrigin + performance.now());
          at += 1;
          return { observation: { at } };
        },
      };
    },
  });
  await using server = await serve({ worlds: [keyed], premade: [{}], page: true });
  await using opened = await openPage(chromium(), `${server.url}/#/world/keyed-1`);
  const { page } = opened;
  await page.evaluate(() => {
    globalThis.pressedAt = [];
    const onPress = ({ timeStamp }: { readonly timeStamp: number }): void => {
      globalThis.pressedAt.push(performance.timeOrigin + timeStamp);
    };
    addEventListener("keydown", onPress, { capture: true });
  });
  await page.locator("::-p-text(Take a seat)").click();
  await page.waitForSelector("::-p-text(Your turn)");
  const arrivals: number[] = [];
  for (let press = 1; press <= presses; press++) {
    if (press % 100 === 1) {
      onProgress(`press ${press} of ${presses}`);
    }
    const arrival = new Promise<number>((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error("a press did not reach the world")), lostMs);
      arrived = (at) => {
        clearTimeout(timer);
        resolve(at);
      };
    });
    await page.keyboard.press("a");
    arrivals.push(await arrival);
    await page.waitForFunction(
      (count) => new RegExp(`at \\[\\]\\s*${count}(?!\\d)`).test(document.body.textContent ?? ""),
      { timeout: lostMs },
      press,
    );
  }
  const pressedAt = await page.evaluate(() => globalThis.pressedAt);
  return arrivals.map((at, index) => at - (pressedAt[index] ?? Number.NaN));
}
