// SPDX-License-Identifier: Apache-2.0
import type { Settings } from "@dm-env-rpc/tensor-codec";
import type { AgentConnection } from "../agent-connection.ts";
import { type Check, checksOf } from "../check.ts";
import { expectThat } from "../mismatch.ts";
import { type AnyRequest, requests } from "../requests.ts";
import { needsCreate } from "./needs.ts";

const stranger = { unknown_setting: 1 };

function without(settings: Settings, name: string): Settings {
  return Object.fromEntries(Object.entries(settings).filter(([key]) => key !== name));
}

/** Checks that a request is refused with an error that names the setting. */
async function refusesSetting(
  agent: AgentConnection,
  request: AnyRequest,
  name: string,
  what: string,
) {
  const { message } = await agent.refused(request, what);
  expectThat(message.includes(name), `"${name}" in the error for ${what}`, `"${message}"`);
}

/** Behaviour 21: settings of a create, of a join and of resets. */
export const settingChecks: readonly Check[] = [
  ...checksOf(21, 'reference.md, "CreateWorldRequest/Response"', {
    "unknown-create-setting": {
      title: "A create with an unknown setting is an error that names it.",
      notFor: needsCreate,
      async run(stage) {
        const request = requests.createWorld({ ...stage.config.create, ...stranger });
        const connection = await stage.connect();
        await refusesSetting(connection, request, "unknown_setting", "an unknown create setting");
      },
    },
    "unknown-join-setting": {
      title: "A join with an unknown setting is an error that names it.",
      async run(stage) {
        const request = requests.join(await stage.world(), { ...stage.config.join, ...stranger });
        const connection = await stage.connect();
        await refusesSetting(connection, request, "unknown_setting", "an unknown join setting");
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
        const connection = await stage.connect();
        for (const name of required?.create ?? []) {
          const request = requests.createWorld(without(create, name));
          await refusesSetting(connection, request, name, `a create without "${name}"`);
        }
        const world = await stage.world();
        for (const name of required?.join ?? []) {
          const request = requests.join(world, without(join, name));
          await refusesSetting(connection, request, name, `a join without "${name}"`);
        }
      },
    },
    "bad-settings": {
      title: "A create, or a join, with a bad setting is an error that names it.",
      notFor: ({ refused, worlds }) =>
        refused === undefined || worlds === "none"
          ? 'the config has no "refused" settings'
          : undefined,
      async run(stage) {
        const { create = {}, join = {}, refused } = stage.config;
        const connection = await stage.connect();
        for (const [name, value] of Object.entries(refused?.create ?? {})) {
          const request = requests.createWorld({ ...create, [name]: value });
          await refusesSetting(connection, request, name, `a bad create setting "${name}"`);
        }
        const world = await stage.world();
        for (const [name, value] of Object.entries(refused?.join ?? {})) {
          const request = requests.join(world, { ...join, [name]: value });
          await refusesSetting(connection, request, name, `a bad join setting "${name}"`);
        }
      },
    },
  }),
  ...checksOf(21, 'reference.md, "ResetRequest/Response"', {
    "unknown-reset-setting": {
      title: "A reset with an unknown setting is an error that names it, and changes nothing.",
      async run(stage) {
        const agent = await stage.agent();
        await agent.step();
        const request = requests.reset(stranger);
        await refusesSetting(agent, request, "unknown_setting", "an unknown reset setting");
        const { state } = await agent.step();
        expectThat(state === "RUNNING", "RUNNING as before", state);
      },
    },
    "unknown-reset-world-setting": {
      title: "A reset of the world with an unknown setting is an error that names it.",
      async run(stage) {
        const request = requests.resetWorld(await stage.world(), stranger);
        const connection = await stage.connect();
        const what = "an unknown setting of a reset of the world";
        await refusesSetting(connection, request, "unknown_setting", what);
      },
    },
  }),
];
