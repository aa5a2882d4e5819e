// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { Turnstile } from "./turnstile.ts";

describe("a turnstile", () => {
  it("runs a transition at once, and a transition that is requested meanwhile after it", () => {
    const turnstile = new Turnstile();
    const log: string[] = [];
    turnstile.enter(() => {
      for (const name of ["b", "c"]) {
        turnstile.enter(() => {
          log.push(name, `${turnstile.tryEnter()}`);
          turnstile.enter(() => log.push(`after ${name}`));
        });
      }
      log.push("a");
    });
    expect(log).toEqual(["a", "b", "false", "c", "false", "after b", "after c"]);
    expect(turnstile.tryEnter()).toBe(true);
  });

  it("runs no transition between a hold and its release, and then all in order", () => {
    const turnstile = new Turnstile();
    const log: string[] = [];
    turnstile.enter(() => {
      turnstile.hold();
      for (const name of ["a", "b", "c", "d"]) {
        turnstile.enter(() => {
          log.push(name);
          if (name === "b") {
            turnstile.hold();
            turnstile.enter(() => log.push("e"));
          }
        });
      }
    });
    expect([log, turnstile.tryEnter()]).toEqual([[], false]);
    turnstile.release();
    expect([log, turnstile.tryEnter()]).toEqual([["a", "b"], false]);
    turnstile.release();
    expect(log).toEqual(["a", "b", "c", "d", "e"]);
  });

  it("is free after a transition that throws, at once or later", () => {
    const turnstile = new Turnstile();
    const fails = (): void => {
      throw new Error("no");
    };
    expect(() => turnstile.enter(fails)).toThrow("no");
    expect(() => turnstile.enter(() => turnstile.enter(fails))).toThrow("no");
    expect(turnstile.tryEnter()).toBe(true);
    turnstile.release();
    expect(turnstile.tryEnter()).toBe(true);
  });
});
