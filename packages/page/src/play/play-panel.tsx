// SPDX-License-Identifier: Apache-2.0
import type { DynamicAction } from "@dm-env-rpc/client";
import type { WatchWorldResponse, WorldInfo } from "@dm-env-rpc/protocol/spectator";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Fact } from "../fact.tsx";
import { formatNumber } from "../format.ts";
import {
  type Choice,
  type ControlSet,
  controlsOf,
  type Field,
  isLegal,
  merge,
  place,
} from "./controls.ts";
import type { Seat, SeatState } from "./seat.ts";

interface PlayPanelProps {
  readonly seat: Seat;
  readonly state: SeatState;
  readonly info: WorldInfo;
  readonly frame: WatchWorldResponse;
  readonly onClose: () => void;
}

/** The controls of a person in a world. */
export function PlayPanel({ seat, state, info, frame, onClose }: PlayPanelProps) {
  const { actions } = state;
  const controls = useMemo(
    () => (actions === undefined ? undefined : controlsOf(actions, info.controls)),
    [actions, info],
  );
  return (
    <section class="play" aria-label="Your seat">
      <div class="row">
        <p role="status">
          <strong>{turnOf(state, info)}</strong>
        </p>
        <DeadlineMeter state={state} info={info} frame={frame} />
        {state.recordedBytes > 0 && <DownloadButton seat={seat} />}
        <button type="button" onClick={state.kind === "left" ? onClose : () => seat.leave()}>
          {state.kind === "left" ? "Close" : "Leave"}
        </button>
      </div>
      {state.message !== undefined && <p class="error">{state.message}</p>}
      <dl class="facts">
        <Fact name="Your return" value={formatNumber(state.return)} />
        {state.lastReturn !== undefined && (
          <Fact name="Previous return" value={formatNumber(state.lastReturn)} />
        )}
      </dl>
      {controls !== undefined && state.kind === "playing" && (
        <Controls
          controls={controls}
          seat={seat}
          isContinuous={info.clock?.isContinuous ?? false}
          isLegal={(choice) => isLegal(choice, actions ?? {}, state.step?.observation)}
        />
      )}
    </section>
  );
}

function turnOf({ kind, isWaiting, step }: SeatState, { clock }: WorldInfo): string {
  switch (kind) {
    case "joining":
      return "Taking a seat…";
    case "left":
      return "You have left";
    case "playing":
      if (step === undefined) {
        return "Waiting for the sequence to begin";
      }
      if (clock?.isContinuous) {
        return "You play";
      }
      return isWaiting ? "Waiting for the others" : "Your turn";
  }
}

const meterMs = 200;

/** Shows how much time is left for this person's step, if the clock has a deadline. */
function DeadlineMeter({ state, info, frame }: Pick<PlayPanelProps, "state" | "info" | "frame">) {
  const deadlineMs = info.clock?.deadlineMs ?? 0;
  const othersWait = frame.agents.some(({ isWaiting }) => isWaiting);
  const isTicking = deadlineMs > 0 && state.kind === "playing" && !state.isWaiting && othersWait;
  const [leftMs, setLeft] = useState(deadlineMs);
  useEffect(() => {
    setLeft(deadlineMs);
    if (!isTicking) {
      return;
    }
    const began = performance.now();
    const timer = setInterval(() => {
      setLeft(Math.max(0, deadlineMs - (performance.now() - began)));
    }, meterMs);
    return () => clearInterval(timer);
  }, [isTicking, deadlineMs, state.step]);
  if (!isTicking) {
    return null;
  }
  return (
    <label class="deadline">
      {Math.ceil(leftMs / 1_000)} s left
      <progress value={leftMs} max={deadlineMs} />
    </label>
  );
}

function DownloadButton({ seat }: { readonly seat: Seat }) {
  const download = (): void => {
    const url = URL.createObjectURL(seat.recording());
    const link = document.createElement("a");
    link.href = url;
    link.download = "recording.dmenv";
    link.click();
    URL.revokeObjectURL(url);
  };
  return (
    <button type="button" onClick={download}>
      Download recording
    </button>
  );
}

interface ControlsProps {
  readonly controls: ControlSet;
  readonly seat: Seat;
  readonly isContinuous: boolean;
  readonly isLegal: (choice: Choice) => boolean;
}

/** Buttons and keys, and fields for actions with too many values. */
function Controls({ controls, seat, isContinuous, isLegal: mayDo }: ControlsProps) {
  const [values, setValues] = useState<DynamicAction>({});
  const down = useRef<readonly Choice[]>([]);
  const { choices, idle, fields } = controls;

  const holdWith = (fieldValues: DynamicAction): void => {
    const held = down.current.reduce((sum, { actions }) => merge(sum, actions), idle);
    seat.hold(merge(fieldValues, isContinuous ? held : {}));
  };
  const press = (choice: Choice): void => {
    if (!mayDo(choice)) {
      return;
    }
    if (isContinuous) {
      down.current = [...down.current.filter((other) => other !== choice), choice];
      holdWith(values);
    }
    // In real time, a press has an effect even if the key is released before the next tick.
    seat.press(choice.actions);
  };
  const release = (choice: Choice): void => {
    if (isContinuous) {
      down.current = down.current.filter((other) => other !== choice);
      holdWith(values);
    }
  };
  const change = (name: string, value: number | boolean | string): void => {
    const changed = merge(values, place(name, value));
    setValues(changed);
    holdWith(changed);
  };
  useEffect(() => holdWith(values), [controls]);
  useKeys(choices, press, release);

  return (
    <>
      {fields.map((field) => (
        <FieldInput
          key={field.name}
          field={field}
          onChange={(value) => change(field.name, value)}
        />
      ))}
      <div class="choices">
        {choices.map((choice) => (
          <ChoiceButton
            key={choice.label}
            choice={choice}
            isLegal={mayDo(choice)}
            isHeld={isContinuous}
            onPress={() => press(choice)}
            onRelease={() => release(choice)}
          />
        ))}
        {choices.length === 0 && !isContinuous && (
          <button type="button" onClick={() => seat.press({})}>
            Step
          </button>
        )}
      </div>
    </>
  );
}

interface ChoiceButtonProps {
  readonly choice: Choice;
  readonly isLegal: boolean;
  /** True if the action stays in force while the key or button is down. */
  readonly isHeld: boolean;
  readonly onPress: () => void;
  readonly onRelease: () => void;
}

function ChoiceButton({ choice, isLegal: mayDo, isHeld, onPress, onRelease }: ChoiceButtonProps) {
  const { key, label } = choice;
  const pointer = isHeld
    ? { onPointerDown: onPress, onPointerUp: onRelease, onPointerLeave: onRelease }
    : { onClick: onPress };
  return (
    <button type="button" disabled={!mayDo} {...pointer}>
      {label} {key !== undefined && <kbd>{keyName(key)}</kbd>}
    </button>
  );
}

const keyNames: Readonly<Record<string, string>> = {
  ArrowUp: "↑",
  ArrowDown: "↓",
  ArrowLeft: "←",
  ArrowRight: "→",
  " ": "space",
};

function keyName(key: string): string {
  return keyNames[key] ?? key;
}

interface FieldInputProps {
  readonly field: Field;
  readonly onChange: (value: number | boolean | string) => void;
}

function FieldInput({ field, onChange }: FieldInputProps) {
  const { name, kind, min, max, isWhole } = field;
  switch (kind) {
    case "switch":
      return (
        <label class="field">
          <input
            type="checkbox"
            onChange={({ currentTarget }) => onChange(currentTarget.checked)}
          />
          {name}
        </label>
      );
    case "number":
      return (
        <label class="field">
          {name}
          <input
            type={min === undefined || max === undefined ? "number" : "range"}
            min={min}
            max={max}
            step={isWhole ? 1 : "any"}
            onInput={({ currentTarget }) => {
              if (Number.isFinite(currentTarget.valueAsNumber)) {
                onChange(currentTarget.valueAsNumber);
              }
            }}
          />
        </label>
      );
    case "text":
      return (
        <label class="field">
          {name}
          <input type="text" onInput={({ currentTarget }) => onChange(currentTarget.value)} />
        </label>
      );
  }
}

/** Calls back when the key of a choice is pressed or released, while no field has the focus. */
function useKeys(
  choices: readonly Choice[],
  press: (choice: Choice) => void,
  release: (choice: Choice) => void,
): void {
  const latest = useRef({ choices, press, release });
  latest.current = { choices, press, release };
  useEffect(() => {
    const find = (event: KeyboardEvent): Choice | undefined => {
      const isTyping = event.target instanceof HTMLInputElement;
      if (isTyping || event.ctrlKey || event.altKey || event.metaKey) {
        return undefined;
      }
      const choice = latest.current.choices.find(({ key }) => key === event.key);
      if (choice !== undefined) {
        event.preventDefault(); // An arrow would scroll the page, and a space would press the focused button.
      }
      return choice;
    };
    const onDown = (event: KeyboardEvent): void => {
      const choice = find(event);
      if (choice !== undefined && !event.repeat) {
        latest.current.press(choice);
      }
    };
    const onUp = (event: KeyboardEvent): void => {
      const choice = find(event);
      if (choice !== undefined) {
        latest.current.release(choice);
      }
    };
    addEventListener("keydown", onDown);
    addEventListener("keyup", onUp);
    return () => {
      removeEventListener("keydown", onDown);
      removeEventListener("keyup", onUp);
    };
  }, []);
}
