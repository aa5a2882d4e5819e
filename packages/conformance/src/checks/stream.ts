// SPDX-License-Identifier: Apache-2.0

import { create, toBinary } from "@bufbuild/protobuf";
import { anyPack, StructSchema } from "@bufbuild/protobuf/wkt";
import { EnvironmentRequestSchema } from "@dm-env-rpc/protocol";
import { sendBadFrame } from "../bad-frame.ts";
import { type Check, checksOf } from "../check.ts";
import { expectThat } from "../mismatch.ts";
import { textOf } from "../player.ts";
import { rawRequest } from "../raw-request.ts";
import { requests } from "../requests.ts";
import { strangeUid, uidsOf } from "../samples.ts";
import { needsSeveral, needsShortSequence } from "./needs.ts";

/** Behaviours 1–9: one stream, its requests and its answers. */
export const streamChecks: readonly Check[] = [
  ...checksOf(1, 'overview.md, "Protocol overview"', {
    "many-connections": {
      title: "Several connections are open at once, each with answers of its own.",
      async run(stage) {
        const players = await Promise.all([stage.connect(), stage.connect(), stage.connect()]);
        await Promise.all(players.map((player) => player.leave()));
        await players[0]?.close();
        await players[1]?.leave();
      },
    },
  }),
  ...checksOf(2, 'overview.md, "Protocol overview"', {
    "one-response-each": {
      title: "Each request has exactly one response, of its kind or an error.",
      async run(stage) {
        const player = await stage.agent();
        const [observation] = uidsOf(player.observations);
        await player.step();
        await player.step(observation === undefined ? [] : [observation]);
        await player.refused(requests.join("", {}), "a second join");
        await player.reset();
        await player.leave();
        await player.leave();
        player.end();
        const error = await player.closed;
        expectThat(player.unasked === 0, "no response that nobody asked for", `${player.unasked}`);
        expectThat(error === undefined, "status OK at the end", String(error));
      },
    },
  }),
  ...checksOf(3, 'overview.md, "Protocol overview"', {
    "in-flight": {
      title: "Requests sent without waiting are answered all, in order.",
      async run(stage) {
        const world = await stage.world();
        const player = await stage.connect();
        const join = player.send(requests.join(world, stage.config.join ?? {}));
        const steps = Array.from({ length: 40 }, () => player.send(requests.step([], [])));
        const tail = [
          player.send(requests.reset()),
          player.send(requests.step([], [])),
          player.send(requests.leave()),
          player.send(requests.step([], [])),
        ];
        const kinds = (await Promise.all([join, ...steps, ...tail])).map(
          (response) => response.case ?? "nothing",
        );
        const expected = ["joinWorld", ...steps.map(() => "step"), "reset", "step", "leaveWorld"];
        expectThat(
          kinds.join() === [...expected, "error"].join(),
          "answers to join, 40 steps, reset, step, leave, and an error for a last step, in that order",
          kinds.join(", "),
        );
      },
    },
    "order-of-steps": {
      title: "Steps in flight are answered each with the observations that it asked for.",
      async run(stage) {
        const player = await stage.agent();
        const uids = uidsOf(player.observations);
        await player.step();
        const asked = Array.from({ length: 3 * uids.length }, (_, i) => uids.slice(0, i % 3));
        const answers = await Promise.all(asked.map((some) => player.step(some)));
        answers.forEach(({ observations }, i) => {
          const expected = asked[i] ?? [];
          const received = observations.map(({ uid }) => uid);
          expectThat(
            received.length === expected.length && expected.every((uid) => received.includes(uid)),
            `observations ${expected.join()} for step ${i}`,
            received.join() || "none",
          );
        });
      },
    },
  }),
  ...checksOf(4, 'overview.md, "States"', {
    "step-not-joined": {
      title: "A step is an error before a join, and after a leave.",
      async run(stage) {
        const player = await stage.connect();
        await player.refused(requests.step([], []), "a step while not joined");
        await player.join(await stage.world(), stage.config.join ?? {});
        await player.step();
        await player.leave();
        await player.refused(requests.step([], []), "a step after a leave");
      },
    },
    "reset-not-joined": {
      title: "A reset is an error before a join.",
      async run(stage) {
        const player = await stage.connect();
        await player.refused(requests.reset(), "a reset while not joined");
      },
    },
  }),
  ...checksOf(5, 'overview.md, "States"', {
    transitions: {
      title: "A state that is not RUNNING never follows another one in successive steps.",
      notFor: needsShortSequence,
      async run(stage) {
        const { create, count } = stage.config.shortSequence ?? { create: {}, count: 0 };
        const player = await stage.agent(await stage.world(create));
        await Promise.all(Array.from({ length: 3 * (count + 2) }, () => player.step()));
        const { states } = player;
        states.forEach((state, i) => {
          const legal = state === "RUNNING" || state === "TERMINATED" || state === "INTERRUPTED";
          expectThat(legal, "RUNNING, TERMINATED or INTERRUPTED", state);
          const twice = state !== "RUNNING" && states[i - 1] !== "RUNNING";
          expectThat(!twice, "RUNNING between two ends, and first", () => states.join(", "));
        });
      },
    },
  }),
  ...checksOf(6, 'overview.md, "Errors"', {
    "no-op": {
      title: "A request that is an error changes nothing, and the stream lives on.",
      async run(stage) {
        const player = await stage.agent();
        await player.step();
        const strange = strangeUid(player.observations);
        await player.refused(requests.step([strange], []), "an unknown observation");
        await player.refused(requests.join("nowhere", {}), "a second join");
        const { state } = await player.step();
        expectThat(state === "RUNNING", "RUNNING as before", state);
      },
    },
  }),
  ...checksOf(7, 'overview.md, "Errors"', {
    "errors-say-why": {
      title: "An error has a code and says what is wrong.",
      async run(stage) {
        const player = await stage.connect();
        for (const [request, what] of [
          [requests.step([], []), "a step while not joined"],
          [requests.join("no world of that name", {}), "a join of an unknown world"],
          [requests.destroyWorld("no world of that name"), "a destroy of an unknown world"],
        ] as const) {
          const { message } = await player.refused(request, what);
          expectThat(message.length > 10, `a message for ${what}`, `"${message}"`);
        }
      },
    },
  }),
  ...checksOf(8, 'behaviours.md, "Stream"', {
    "half-close": {
      title: "After a half-close everything queued is answered, then the stream ends with OK.",
      async run(stage) {
        const player = await stage.agent();
        const steps = Array.from({ length: 10 }, () => player.send(requests.step([], [])));
        player.end();
        for (const step of steps) {
          const response = await step;
          expectThat(response.case === "step", "an answer to every step", textOf(response));
        }
        const error = await player.closed;
        expectThat(error === undefined, "status OK at the end", String(error));
      },
    },
    "half-close-leaves": {
      title: "After a half-close the agent has left its world.",
      notFor: ({ worlds }) => (worlds === "none" ? "no world can be created" : undefined),
      async run(stage) {
        const world = await stage.world();
        const player = await stage.agent(world);
        await player.step();
        player.end();
        await player.closed;
        await (await stage.connect()).destroyWorld(world);
      },
    },
    "drop-leaves": {
      title: "An agent whose stream breaks off holds nobody up.",
      notFor: needsSeveral(2),
      async run(stage) {
        const { players } = await stage.running(2);
        const [first, second] = players;
        first?.drop();
        if (second === undefined) return;
        const before = second.states.length;
        await stage.drive([second], () => second.states.length >= before + 3);
      },
    },
  }),
  ...checksOf(9, 'behaviours.md, "Stream"', {
    "no-payload": {
      title: "A request without a payload is an error, and the stream lives on.",
      async run(stage) {
        const player = await stage.connect();
        await player.refused({ case: undefined }, "a request without a payload");
        await player.leave();
      },
    },
    "unknown-extension": {
      title: "An extension that the server does not know is an error, and the stream lives on.",
      async run(stage) {
        const player = await stage.connect();
        const value = anyPack(StructSchema, create(StructSchema));
        value.typeUrl = "type.googleapis.com/nobody.knows.This";
        await player.refused({ case: "extension", value }, "an unknown extension");
        await player.leave();
      },
    },
    "malformed-message": {
      title: "Bytes that are no request are an error, and never the end of other streams.",
      notFor: (_config, protocol) =>
        protocol === "grpc" ? undefined : "such bytes are sent over gRPC only",
      async run(stage) {
        const [player, other] = [await stage.connect(), await stage.connect()];
        const response = await player.send(rawRequest([0x1a, 0x05, 0x08])).catch(() => undefined);
        expectThat(
          response === undefined || response.case === "error",
          "an error, or the end of this stream",
          () => (response === undefined ? "" : textOf(response)),
        );
        await other.leave();
      },
    },
    "malformed-frame": {
      title: "Bytes that are no gRPC message end their stream only.",
      notFor: (_config, protocol) =>
        protocol === "grpc" ? undefined : "such bytes are sent over gRPC only",
      async run(stage) {
        const other = await stage.connect();
        const request = toBinary(EnvironmentRequestSchema, create(EnvironmentRequestSchema));
        const outcome = await sendBadFrame(stage.address, request, stage.timeoutMs);
        expectThat(outcome !== "0", "an end of the stream that is not OK", "status OK");
        await other.leave();
      },
    },
  }),
];
