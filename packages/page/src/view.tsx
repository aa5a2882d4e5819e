// SPDX-License-Identifier: Apache-2.0
import type {
  Observation,
  Picture as PictureMessage,
  WatchWorldResponse,
} from "@dm-env-rpc/protocol/spectator";
import { isTensorError, type Tensor, unpack } from "@dm-env-rpc/tensor-codec";
import { unpackTensor } from "@dm-env-rpc/tensor-codec/proto";
import { useEffect, useRef, useState } from "preact/hooks";
import { formatNumber } from "./format.ts";
import { drawImage, imageOf, numbersOf } from "./images.ts";

interface ViewProps {
  readonly view: WatchWorldResponse["view"];
  readonly world: string;
}

/** What a world looks like. */
export function View({ view, world }: ViewProps) {
  switch (view.case) {
    case "picture":
      return <Picture picture={view.value} world={world} />;
    case "observations":
      return (
        <>
          <h2>What agent {view.value.agent} observes</h2>
          <dl class="observations">
            {view.value.observations.map((observation) => (
              <ObservationView key={observation.name} observation={observation} />
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

/** The media types that a picture may have: the browser shows no other as an image. */
const mediaTypes: ReadonlySet<string> = new Set(["image/png", "image/svg+xml"]);

/** A picture as an image, in which no script runs: SVG is the text of a world's author. */
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

function ObservationView({ observation }: { readonly observation: Observation }) {
  const { name, shape, tensor } = observation;
  return (
    <div>
      <dt>
        {name} <small>[{shape.join(", ")}]</small>
      </dt>
      <dd>
        {tensor === undefined ? "too large to show" : <TensorView tensor={unpacked(tensor)} />}
      </dd>
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

/** Elements that are listed as text. */
const maxListed = 32;

function TensorView({ tensor }: { readonly tensor: Tensor | string }) {
  if (typeof tensor === "string") {
    return <span class="error">{tensor}</span>;
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
