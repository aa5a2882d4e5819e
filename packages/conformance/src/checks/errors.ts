// SPDX-License-Identifier: Apache-2.0
import { create, toBinary } from "@bufbuild/protobuf";
import { anyPack, StructSchema } from "@bufbuild/protobuf/wkt";
import { EnvironmentRequestSchema } from "@dm-env-rpc/protocol";
import { textOf } from "../agent-connection.ts";
import { sendBadFrame } from "../bad-frame.ts";
import { type Check, checksOf } from "../check.ts";
import { expectThat } from "../mismatch.ts";
import { rawRequest } from "../raw-request.ts";
import { type AnyRequest, requests } from "../requests.ts";
import { act, ofAnotherDType, strangeUid } from "../samples.ts";
import type { Stage } from "../stage.ts";

/** A client's mistake and the server's error. */
interface Answered {
  readonly what: string;
  /** Names or UIDs of the invalid value; the error must contain at least one. */
  readonly says: readonly string[];
  readonly code: number;
  readonly message: string;
}

/** Makes one mistake of each kind. Other checks decide which of them must be errors. */
async function mistakes(stage: Stage): Promise<readonly Answered[]> {
  const made: Answered[] = [];
  const world = await stage.world();
  let by = await stage.connect();
  const make = async (request: AnyRequest, what: string, ...says: string[]): Promise<void> => {
    const response = await by.send(request);
    if (response.case === "error") {
      made.push({ what, says, ...response.value });
    }
  };
  const nowhere = "no world of that name";
  const unknown = { ...stage.config.join, unknown_setting: 1 };
  await make(requests.step([], []), "a step while not joined");
  await make(requests.join(nowhere, {}), "a join of an unknown world", nowhere);
  await make(requests.resetWorld(nowhere), "a reset of an unknown world", nowhere);
  await make(requests.destroyWorld(nowhere), "a destroy of an unknown world", nowhere);
  await make(requests.join(world, unknown), "an unknown join setting", "unknown_setting");
  await by.close();

  const agent = await stage.agent(world);
  await agent.step();
  by = agent;
  const observation = strangeUid(agent.observations);
  const action = { uid: strangeUid(agent.actions), tensor: ofAnotherDType(scalarInt8) };
  await make(requests.join(world, stage.config.join ?? {}), "a join while joined");
  await make(requests.step([observation], []), "an unknown observation", `${observation}`);
  await make(requests.step([], [action]), "an unknown action", `${action.uid}`);
  for (const entry of agent.actions.entries) {
    const step = requests.step([], [act(entry, ofAnotherDType(entry.spec))]);
    await make(step, `"${entry.name}" of another dtype`, entry.name, `${entry.uid}`);
  }
  return made;
}

const scalarInt8 = { dtype: "int8", shape: [] } as const;

const onlyOverGrpc: Check["notFor"] = (_config, protocol) =>
  protocol === "grpc" ? undefined : "such bytes are sent over gRPC only";

/** Behaviours 6, 7 and 9: errors for invalid requests. */
export const errorChecks: readonly Check[] = [
  ...checksOf(6, 'overview.md, "Errors"', {
    "no-op": {
      title: "A refused request changes nothing, and the stream stays open.",
      async run(stage) {
        const agent = await stage.agent();
        await agent.step();
        const strange = strangeUid(agent.observations);
        await agent.refused(requests.step([strange], []), "an unknown observation");
        await agent.refused(requests.join("nowhere", {}), "a second join");
        await agent.refused(requests.destroyWorld("nowhere"), "a destroy of an unknown world");
        const { state } = await agent.step();
        expectThat(state === "RUNNING", "RUNNING as before", state);
      },
    },
  }),
  ...checksOf(7, 'overview.md, "Errors"', {
    "errors-have-codes": {
      title: "An error has a code of google.rpc and a message.",
      async run(stage) {
        for (const { what, code, message } of await mistakes(stage)) {
          const known = code >= 1 && code <= 16;
          expectThat(known, `a code from 1 to 16 for ${what}`, `${code}, "${message}"`);
          expectThat(message.trim() !== "", `a message for ${what}`, `"${message}"`);
        }
      },
    },
    "errors-say-what-came": {
      title: "An error names the invalid world, setting, action or UID.",
      async run(stage) {
        for (const { what, says, message } of await mistakes(stage)) {
          const said = says.length === 0 || says.some((text) => message.includes(text));
          expectThat(said, `"${says.join('" or "')}" in the error for ${what}`, `"${message}"`);
        }
      },
    },
    "errors-differ": {
      title: "Different mistakes have different messages.",
      async run(stage) {
        const seen = new Map<string, Answered>();
        for (const mistake of await mistakes(stage)) {
          const other = seen.get(mistake.message);
          // An unknown world is the same mistake in every request.
          const differ = other === undefined || other.says.join() === mistake.says.join();
          expectThat(
            differ,
            `different messages for ${other?.what} and ${mistake.what}`,
            () => mistake.message,
          );
          seen.set(mistake.message, mistake);
        }
      },
    },
    "no-stack-traces": {
      title: "Errors contain no stack trace.",
      async run(stage) {
        for (const { what, message } of await mistakes(stage)) {
          const trace = /^\s+at .+:\d+|^Traceback |^\s+File ".+", line \d+/m.test(message);
          expectThat(!trace, `an error for ${what} without a stack trace`, message);
        }
      },
    },
  }),
  ...checksOf(9, 'behaviours.md, "Stream"', {
    "no-payload": {
      title: "A request without a payload is an error, and the stream stays open.",
      async run(stage) {
        const connection = await stage.connect();
        await connection.refused({ case: undefined }, "a request without a payload");
        await connection.lives();
      },
    },
    "unknown-extension": {
      title: "An unknown extension is an error, and the stream stays open.",
      async run(stage) {
        const connection = await stage.connect();
        const value = anyPack(StructSchema, create(StructSchema));
        value.typeUrl = "type.googleapis.com/unknown.Extension";
        await connection.refused({ case: "extension", value }, "an unknown extension");
        await connection.lives();
      },
    },
    "malformed-message": {
      title: "Bytes that do not decode to a request are an error, and other streams stay open.",
      notFor: onlyOverGrpc,
      async run(stage) {
        const [connection, other] = [await stage.connect(), await stage.connect()];
        try {
          const response = await connection.send(rawRequest([0x1a, 0x05, 0x08]));
          expectThat(response.case === "error", "an error, or the end of this stream", () =>
            textOf(response),
          );
        } catch (error) {
          if (connection.gone === undefined) {
            throw error;
          }
        }
        await other.lives();
      },
    },
    "malformed-frame": {
      title: "A malformed gRPC frame ends only its own stream, with a status other than OK.",
      notFor: onlyOverGrpc,
      async run(stage) {
        const other = await stage.connect();
        const request = toBinary(EnvironmentRequestSchema, create(EnvironmentRequestSchema));
        const outcome = await sendBadFrame(stage.address, request, stage.timeoutMs);
        const ended =
          outcome.kind === "reset" || (outcome.kind === "status" && outcome.code !== "0");
        expectThat(ended, "a status that is not OK, or the stream reset", () =>
          outcome.kind === "status" ? `status ${outcome.code}` : outcome.kind,
        );
        await other.lives();
      },
    },
  }),
];
