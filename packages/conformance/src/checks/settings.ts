// SPDX-License-Identifier: Apache-2.0
import type { Settings } from "@dm-env-rpc/tensor-codec";
import { type Check, checksOf } from "../check.ts";
import { expectThat } from "../mismatch.ts";
import { requests } from "../requests.ts";
import { needsCreate } from "./needs.ts";

function without(settings: Settings, name: string): Settings {
  return Object.fromEntries(Object.entries(settings).filter(([key]) => key !== name));
}

/** Behaviour 21: settings of a create and of a join. */
export const settingChecks: readonly Check[] = [
  ...checksOf(21, 'reference.md, "CreateWorldRequest/Response"', {
    "unknown-create-setting": {
      title: "A create with an unknown setting is an error that names it.",
      notFor: needsCreate,
      async run(stage) {
        const player = await stage.connect();
        const settings = { ...stage.config.create, nobody_knows_this: 1 };
        const { message } = await player.refused(
          requests.createWorld(settings),
          'the create setting "nobody_knows_this"',
        );
        expectThat(message.includes("nobody_knows_this"), "its name in the error", message);
      },
    },
    "unknown-join-setting": {
      title: "A join with an unknown setting is an error that names it.",
      async run(stage) {
        const world = await stage.world();
        const player = await stage.connect();
        const settings = { ...stage.config.join, nobody_knows_this: 1 };
        const { message } = await player.refused(
          requests.join(world, settings),
          'the join setting "nobody_knows_this"',
        );
        expectThat(message.includes("nobody_knows_this"), "its name in the error", message);
      },
    },
    "required-settings": {
      title: "A create, or a join, without a required setting is an error that names it.",
      notFor: ({ required, worlds }) =>
        required === undefined || worlds === "none"
          ? 'the config has no "required" settings'
          : undefined,
      async run(stage) {
        const { create = {}, join = {}, required } = stage.config;
        const player = await stage.connect();
        for (const name of required?.create ?? []) {
          const request = requests.createWorld(without(create, name));
          const { message } = await player.refused(request, `a create without "${name}"`);
          expectThat(message.includes(name), `"${name}" in the error`, message);
        }
        const world = await stage.world();
        for (const name of required?.join ?? []) {
          const request = requests.join(world, without(join, name));
          const { message } = await player.refused(request, `a join without "${name}"`);
          expectThat(message.includes(name), `"${name}" in the error`, message);
        }
      },
    },
    "bad-settings": {
      title: "A create, or a join, with a bad setting is an error.",
      notFor: ({ refused, worlds }) =>
        refused === undefined || worlds === "none"
          ? 'the config has no "refused" settings'
          : undefined,
      async run(stage) {
        const { create = {}, join = {}, refused } = stage.config;
        const player = await stage.connect();
        for (const [name, value] of Object.entries(refused?.create ?? {})) {
          const request = requests.createWorld({ ...create, [name]: value });
          await player.refused(request, `the create setting "${name}"`);
        }
        const world = await stage.world();
        for (const [name, value] of Object.entries(refused?.join ?? {})) {
          const request = requests.join(world, { ...join, [name]: value });
          await player.refused(request, `the join setting "${name}"`);
        }
      },
    },
  }),
];
