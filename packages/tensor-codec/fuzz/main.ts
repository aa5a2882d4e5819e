// SPDX-License-Identifier: Apache-2.0
/**
 * Feeds random and mutated bytes to the decoders for a given time:
 * `npm run fuzz -- --seconds 600 --seed 1`. Prints the bytes and exits with 1 if a decoder
 * returns anything other than a message or a typed error, or takes a second for one input.
 */
import { parseArgs } from "node:util";
import { fuzzOne } from "../testing/fuzz.ts";
import { golden } from "../testing/golden.ts";
import { mutate, noise, seeded } from "../testing/mutate.ts";

const { values } = parseArgs({
  options: {
    seconds: { type: "string", default: "600" },
    seed: { type: "string", default: String(Date.now()) },
  },
});

const slowMs = 1000;
const maxKept = 4096;

const random = seeded(Number(values.seed));
// Mutants that decode to a message are mutated again, so that mutations accumulate.
const corpus = golden.map(({ bytes }) => bytes);
const until = performance.now() + Number(values.seconds) * 1000;
const counts = { message: 0, error: 0 };

process.stdout.write(`fuzzing for ${values.seconds} s with --seed ${values.seed}\n`);
while (performance.now() < until) {
  const seed = corpus[Math.floor(random() * corpus.length)] as Uint8Array;
  const bytes = random() < 0.2 ? noise(random) : mutate(seed, random);
  const start = performance.now();
  try {
    const outcome = fuzzOne(bytes);
    counts[outcome]++;
    if (outcome === "message" && bytes.length < 2048) {
      keep(bytes);
    }
  } catch (error) {
    fail(bytes, error);
  }
  if (performance.now() - start > slowMs) {
    fail(bytes, new Error("took more than a second"));
  }
}
process.stdout.write(`${counts.message} messages, ${counts.error} typed errors, nothing else\n`);

function keep(bytes: Uint8Array): void {
  if (corpus.length < maxKept) {
    corpus.push(bytes);
  } else {
    corpus[golden.length + Math.floor(random() * (maxKept - golden.length))] = bytes;
  }
}

function fail(bytes: Uint8Array, error: unknown): never {
  process.stderr.write(`${Buffer.from(bytes).toString("hex")}\n`);
  throw error;
}
