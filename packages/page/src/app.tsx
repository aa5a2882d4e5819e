// SPDX-License-Identifier: Apache-2.0
import { useEffect, useState } from "preact/hooks";
import { ReplayPage } from "./replay/replay-page.tsx";
import { fragmentParameter, type Spectator } from "./spectator.ts";
import { WorldPage } from "./world-page.tsx";
import { WorldsPage } from "./worlds-page.tsx";

/** The view that the address selects. */
type Place =
  | { readonly kind: "worlds" | "replay" }
  | {
      readonly kind: "world";
      readonly name: string;
      /** Admits the person to a seat that a matchmaker has reserved. */
      readonly joinToken: string | undefined;
    };

const worldPrefix = "#/world/";

/** The address of the page for recordings. */
export const replayAddress = "#/replay";

/** The address of a world in the page. */
export function addressOf(world: string): string {
  return worldPrefix + encodeURIComponent(world);
}

/** The page of a server. */
export function App({ spectator }: { readonly spectator: Spectator }) {
  const [place, setPlace] = useState(() => placeOf(location.hash));
  useEffect(() => {
    const change = (): void => setPlace(placeOf(location.hash));
    addEventListener("hashchange", change);
    return () => removeEventListener("hashchange", change);
  }, []);
  switch (place.kind) {
    case "world":
      return (
        <WorldPage
          key={JSON.stringify(place)}
          spectator={spectator}
          name={place.name}
          joinToken={place.joinToken}
        />
      );
    case "replay":
      return <ReplayPage />;
    case "worlds":
      return <WorldsPage spectator={spectator} />;
  }
}

function placeOf(hash: string): Place {
  if (hash === replayAddress) {
    return { kind: "replay" };
  }
  if (!hash.startsWith(worldPrefix)) {
    return { kind: "worlds" };
  }
  const [name = ""] = hash.slice(worldPrefix.length).split("?");
  const joinToken = fragmentParameter(hash, "join_token");
  try {
    return { kind: "world", name: decodeURIComponent(name), joinToken };
  } catch {
    return { kind: "worlds" }; // The address has a percent sign that encodes no character.
  }
}
