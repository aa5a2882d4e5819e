// SPDX-License-Identifier: Apache-2.0
import { useEffect, useState } from "preact/hooks";
import { Fact } from "../fact.tsx";
import { formatNumber } from "../format.ts";
import { NamedTensorView } from "../view.tsx";
import { type RecordedPlay, type RecordedStep, readPlay } from "./steps.ts";

/** Shows a recording step by step. The page does not send the file to any server. */
export function ReplayPage() {
  const [play, setPlay] = useState<RecordedPlay>();
  /** Number of recordings opened so far, so that each begins at its first step. */
  const [opens, setOpens] = useState(0);
  const [error, setError] = useState<string>();
  useEffect(() => {
    document.title = "Replay";
  }, []);
  const open = async (file: File | undefined): Promise<void> => {
    if (file === undefined) {
      return;
    }
    try {
      const opened = await readPlay(new Uint8Array(await file.arrayBuffer()));
      setError(undefined);
      setPlay(opened);
      setOpens((count) => count + 1);
    } catch (thrown) {
      setPlay(undefined);
      setError(thrown instanceof Error ? thrown.message : String(thrown));
    }
  };
  return (
    <>
      <header>
        <a href="#/">All worlds</a>
        <h1>Replay</h1>
      </header>
      <main>
        <label class="field">
          Recording
          <input
            type="file"
            onChange={({ currentTarget }) => void open(currentTarget.files?.[0])}
          />
        </label>
        {error !== undefined && <p class="error">{error}</p>}
        {play !== undefined && <Steps key={opens} play={play} />}
      </main>
    </>
  );
}

const longestPauseMs = 1_000;

function Steps({ play }: { readonly play: RecordedPlay }) {
  const { steps, peer, versions } = play;
  const [index, setIndex] = useState(0);
  const [isPlaying, setPlaying] = useState(false);
  useEffect(() => {
    const [now, next] = [steps[index], steps[index + 1]];
    if (!isPlaying || now === undefined || next === undefined) {
      setPlaying(false);
      return;
    }
    const pauseMs = Math.min(next.timeMs - now.timeMs, longestPauseMs);
    const timer = setTimeout(() => setIndex(index + 1), pauseMs);
    return () => clearTimeout(timer);
  }, [steps, index, isPlaying]);
  const step = steps[index];
  if (step === undefined) {
    return <p>This recording has no steps.</p>;
  }
  return (
    <>
      <p>{[peer, ...Object.entries(versions).map((pair) => pair.join(" "))].join(", ")}</p>
      <div class="row">
        <button type="button" aria-pressed={isPlaying} onClick={() => setPlaying(!isPlaying)}>
          {isPlaying ? "Pause" : "Play"}
        </button>
        <label class="field slider">
          Step {formatNumber(index + 1)} of {formatNumber(steps.length)}
          <input
            type="range"
            min={0}
            max={steps.length - 1}
            value={index}
            onInput={({ currentTarget }) => setIndex(currentTarget.valueAsNumber)}
          />
        </label>
      </div>
      <dl class="facts">
        <Fact name="State" value={step.state} />
        <Fact name="Time" value={`${formatNumber(step.timeMs / 1_000)} s`} />
        <Fact name="Action" value={actionOf(step)} />
      </dl>
      <dl class="observations">
        {step.observations.map(({ name, tensor }) => (
          <NamedTensorView key={name} name={name} shape={tensor.shape} tensor={tensor} />
        ))}
      </dl>
    </>
  );
}

function actionOf({ actions }: RecordedStep): string {
  return actions.length === 0
    ? "none"
    : actions.map(({ name, tensor }) => `${name} ${[...tensor.data].join(" ")}`).join(", ");
}
