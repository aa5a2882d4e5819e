// SPDX-License-Identifier: Apache-2.0
import { expect, test, vi } from "vitest";
import { windowBytes } from "../../limits/limits.ts";
import { stepRequest } from "../../testing/messages.ts";
import { bytesOf, frame, type RawCall, rawCall } from "../../testing/raw-call.ts";
import { record } from "../../testing/recorder.ts";
import { serving } from "../../testing/serving.ts";
import { ConnectionWindows } from "./connection-windows.ts";

const mebibyte = 1024 * 1024;

/**
 * Waits until the number of bytes that a client may send is in a range. The listener changes the number with a later
 * frame.
 */
async function hasWindow(call: RawCall, least: number, most: number = least): Promise<void> {
  await vi.waitFor(async () => {
    await new Promise((resolve) => call.session.ping(resolve));
    expect(call.session.state.remoteWindowSize).toBeGreaterThanOrEqual(least);
    expect(call.session.state.remoteWindowSize).toBeLessThanOrEqual(most);
  }, 60_000);
}

test("connections of an address share 1 MiB, and a single one has the whole window", async () => {
  await using server = await serving();
  await using first = rawCall(server.address);
  await hasWindow(first, windowBytes);
  const served = record(await server.next());
  const send = (): void => void first.http2.write(frame(bytesOf(stepRequest(mebibyte))));
  {
    await using second = rawCall(server.address);
    await hasWindow(second, mebibyte / 2);
    await using third = rawCall(server.address);
    await hasWindow(third, mebibyte / 4);
    for (let sent = 1; sent <= 8; sent++) {
      send();
      await served.seen("message", sent);
    }
    await hasWindow(first, mebibyte / 8, mebibyte / 4);
  }
  await vi.waitFor(() => expect(server.listener.connections).toBe(1), 60_000);
  send();
  await hasWindow(first, windowBytes / 2, windowBytes);
});

test("the windows of an address shrink when the number of its connections doubles, but not below 64 KiB", () => {
  const windows = new ConnectionWindows();
  const sizes: number[][] = [];
  const closings = Array.from({ length: 40 }, () => {
    const own: number[] = [];
    sizes.push(own);
    return windows.add("192.0.2.1", {
      destroyed: false,
      setLocalWindowSize: (bytes) => void own.push(bytes),
    });
  });
  const kibibyte = 1024;
  const expected = [4096, 512, 256, 128, 64].map((size) => size * kibibyte);
  expect(sizes[0]).toEqual([...expected, 65_535]);
  expect(sizes[39]).toEqual([65_535]);
  const others: number[] = [];
  windows.add("192.0.2.2", {
    destroyed: false,
    setLocalWindowSize: (bytes) => void others.push(bytes),
  });
  expect(others).toEqual([windowBytes]);
  for (const close of closings.slice(1)) {
    close();
  }
  expect(sizes[0]?.slice(-5)).toEqual(expected.toReversed());
});

test("the window of a connection that has ended is not changed", () => {
  const windows = new ConnectionWindows();
  windows.add("192.0.2.1", {
    destroyed: true,
    setLocalWindowSize: () => {
      throw new Error("the session has been destroyed");
    },
  });
});
