// SPDX-License-Identifier: Apache-2.0
import type { DynamicObservation } from "@dm-env-rpc/client";
import type { Picture as PictureMessage, WatchWorldResponse } from "@dm-env-rpc/protocol/spectator";
import { isTensorError, type Scalar, type Tensor, unpack } from "@dm-env-rpc/tensor-codec";
import { unpackTensor } from "@dm-env-rpc/tensor-codec/proto";
import { useEffect, useRef, useState } from "preact/hooks";
import { formatNumber } from "./format.ts";
import { drawImage, imageOf, numbersOf } from "./images.ts";

interface ViewProps {
  readonly view: WatchWorldResponse["view"];
  readonly world: string;
}

/** The picture of a world, or the observations of an agent. */
export function View({ view, world }: ViewProps) {
  switch (view.case) {
    case "picture":
      return <Picture picture={view.value} world={world} />;
    case "observations":
      return (
        <>
          <h2>What agent {view.value.agent} observes</h2>
          <dl class="observations">
            {view.value.observations.map(({ name, shape, tensor }) => (
              <NamedTensorView
                key={name}
                name={name}
                shape={shape}
                tensor={tensor && unpacked(tensor)}
              />
            ))}
          </dl>
        </>
      );
    case "error":
      return <p class="error">{view.value}</p>;
    case undefined:
      return <p>Nothing to see until a sequence begins.</p>;
  }
}

/** The observations of an agent of this page. */
export function OwnObservations({ observation }: { readonly observation: DynamicObservation }) {
  return (
    <>
      <h2>What you observe</h2>
      <dl class="observations">
        {flat(observation).map(([name, value]) =>
          isTensor(value) ? (
            <NamedTensorView key={name} name={name} shape={value.shape} tensor={value} />
          ) : (
            <NamedTensorView key={name} name={name} shape={[]} tensor={textOf(value)} />
          ),
        )}
      </dl>
    </>
  );
}

function flat(
  observation: DynamicObservation,
  prefix = "",
): readonly (readonly [string, Scalar | Tensor])[] {
  return Object.entries(observation).flatMap(([name, value]) =>
    isRecord(value) ? flat(value, `${prefix}${name}.`) : [[prefix + name, value] as const],
  );
}

function isTensor(value: Scalar | Tensor): value is Tensor {
  return typeof value === "object" && "dtype" in value;
}

/** Returns a scalar as text; for a message, its type URL. */
function textOf(value: Exclude<Scalar, Tensor>): string {
  return typeof value === "object" ? value.typeUrl : String(value);
}

function isRecord(value: DynamicObservation[string]): value is DynamicObservation {
  return typeof value === "object" && !("dtype" in value) && !("typeUrl" in value);
}

/** Media types that the browser shows as an image. */
const mediaTypes: ReadonlySet<string> = new Set(["image/png", "image/svg+xml"]);

/** Shows a picture as an image, in which the scripts of an author's SVG do not run. */
function Picture({ picture, world }: { readonly picture: PictureMessage; readonly world: string }) {
  const [url, setUrl] = useState<string>();
  const [isSmall, setSmall] = useState(false);
  const shown = useRef<string | undefined>(undefined);
  useEffect(() => {
    const type = mediaTypes.has(picture.mediaType) ? picture.mediaType : "image/png";
    const data = new Uint8Array(picture.data);
    setUrl(URL.createObjectURL(new Blob([data], { type })));
  }, [picture]);
  useEffect(() => {
    const last = shown.current;
    shown.current = url;
    if (last !== undefined) {
      URL.revokeObjectURL(last);
    }
  }, [url]);
  useEffect(
    () => () => {
      if (shown.current !== undefined) {
        URL.revokeObjectURL(shown.current);
      }
    },
    [],
  );
  return (
    <img
      class={isSmall ? "picture pixels" : "picture"}
      src={url}
      alt={`The world ${world}`}
      onLoad={({ currentTarget }) => setSmall(currentTarget.naturalWidth < 320)}
    />
  );
}

interface NamedTensorViewProps {
  readonly name: string;
  readonly shape: readonly number[];
  /** Undefined if the tensor is too large to show; a string is shown as it is. */
  readonly tensor: Tensor | string | undefined;
}

/** Shows a tensor with its name, as an image or as numbers. */
export function NamedTensorView({ name, shape, tensor }: NamedTensorViewProps) {
  return (
    <div>
      <dt>
        {name} <small>[{shape.join(", ")}]</small>
      </dt>
      <dd>{tensor === undefined ? "too large to show" : <TensorView tensor={tensor} />}</dd>
    </div>
  );
}

function unpacked(message: Parameters<typeof unpackTensor>[0]): Tensor | string {
  try {
    return unpack(unpackTensor(message));
  } catch (error) {
    if (isTensorError(error)) {
      return error.message;
    }
    throw error;
  }
}

/** Maximum number of elements that are listed as text. */
const maxListed = 32;

function TensorView({ tensor }: { readonly tensor: Tensor | string }) {
  if (typeof tensor === "string") {
    return <span>{tensor}</span>;
  }
  const image = imageOf(tensor);
  if (image !== undefined) {
    return <ImageView image={image} />;
  }
  const numbers = numbersOf(tensor);
  const texts =
    numbers?.slice(0, maxListed).map(formatNumber) ??
    [...tensor.data].slice(0, maxListed).map((element) => String(element).slice(0, 200));
  return (
    <span>
      {texts.join(", ")}
      {tensor.data.length > maxListed && " …"}
    </span>
  );
}

function ImageView({ image }: { readonly image: ImageData }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    if (canvas.current !== null) {
      drawImage(canvas.current, image);
    }
  }, [image]);
  return <canvas ref={canvas} class="pixels" aria-label="The observation as an image" role="img" />;
}
