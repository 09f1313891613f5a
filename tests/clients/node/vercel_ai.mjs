// The Vercel AI SDK with each of its providers that can be pointed at a gateway.
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateObject, generateText, isStepCount, Output, streamText, tool } from "ai";
import { z } from "zod";
import { DECLARED, KEY, main, seen, tools, URL } from "./program.mjs";

const base = { apiKey: KEY, baseURL: `${URL}/v1` };
const openai = createOpenAI(base);
const anthropic = createAnthropic(base);
const compatible = createOpenAICompatible({
  ...base,
  name: "gateway",
  includeUsage: true,
  supportsStructuredOutputs: true,
});

// Each row: a model, and what its provider wants to be told beside.
// The SDK leaves out reasoning for names that it does not know as OpenAI's, unless it is forced.
const effort = { forceReasoning: true, reasoningEffort: "high" };
const summary = { ...effort, reasoningSummary: "auto" };
const ROWS = {
  "@ai-sdk/anthropic": {
    model: anthropic,
    options: { anthropic: { thinking: { type: "adaptive", display: "summarized" } } },
  },
  "@ai-sdk/openai": {
    model: openai.responses,
    options: { openai: { ...summary, store: false, include: ["reasoning.encrypted_content"] } },
  },
  "@ai-sdk/openai, stored": { model: openai.responses, options: { openai: summary } },
  "@ai-sdk/openai, chat": { model: openai.chat, options: { openai: effort } },
  "@ai-sdk/openai-compatible": { model: compatible, options: { gateway: { reasoningEffort: "high" } } },
};
const City = z.object({ name: z.string(), population: z.number().int() });

function declared(used) {
  const one = (name) =>
    tool({
      description: DECLARED[name],
      inputSchema: z.object({ city: z.string() }),
      execute: (input) => used.run(name, input),
    });
  return { get_weather: one("get_weather"), get_time: one("get_time") };
}

const asked = (job, row) => ({ model: row.model(job.model) });

async function plain(job, row) {
  const done = await generateText({ ...asked(job, row), prompt: job.prompt });
  return seen({ text: done.text, more: { finish: done.finishReason, output: done.usage.outputTokens } });
}

async function withTools(job, row) {
  const used = tools();
  const looped = { tools: declared(used), stopWhen: isStepCount(8) };
  const done = await generateText({ ...asked(job, row), prompt: job.prompt, ...looped });
  return seen({ text: done.text, ran: used.ran, more: { steps: done.steps.length, finish: done.finishReason } });
}

// A streamed run with reasoning, and then another turn on top of it.
async function thinking(job, row) {
  const used = tools();
  const rest = { ...asked(job, row), tools: declared(used), stopWhen: isStepCount(8), providerOptions: row.options };
  const messages = [{ role: "user", content: job.prompt }];
  const errors = [];
  const stream = streamText({ ...rest, messages, onError: ({ error }) => errors.push(error) });
  const kinds = new Set();
  let thoughts = "";
  for await (const part of stream.fullStream) {
    kinds.add(part.type);
    if (part.type === "reasoning-delta") thoughts += part.text;
  }
  if (errors.length) throw errors[0];
  const first = await stream.text;
  messages.push(...(await stream.responseMessages), { role: "user", content: "And once more." });
  const second = await generateText({ ...rest, messages });
  return seen({ text: `${first} ${second.text}`, thinking: thoughts, ran: used.ran, more: { kinds: [...kinds] } });
}

async function streaming(job, row) {
  const used = tools();
  const errors = [];
  const stream = streamText({
    ...asked(job, row),
    prompt: job.prompt,
    tools: declared(used),
    stopWhen: isStepCount(8),
    onError: ({ error }) => errors.push(error),
  });
  let text = "";
  for await (const delta of stream.textStream) text += delta;
  if (errors.length) throw errors[0];
  const usage = await stream.totalUsage;
  return seen({ text, ran: used.ran, more: { output: usage.outputTokens, finish: await stream.finishReason } });
}

async function structured(job, row) {
  const done = await generateText({ ...asked(job, row), prompt: job.prompt, output: Output.object({ schema: City }) });
  const older = await generateObject({ ...asked(job, row), prompt: job.prompt, schema: City });
  return seen({ value: done.output, more: { older: older.object } });
}

async function image(job, row) {
  const content = [
    { type: "text", text: job.prompt },
    { type: "file", data: Buffer.from(job.image, "base64"), mediaType: "image/png" },
  ];
  const done = await generateText({ ...asked(job, row), messages: [{ role: "user", content }] });
  return seen({ text: done.text });
}

const SCENARIOS = {
  tool: withTools,
  thinking,
  "parallel tools": withTools,
  "several steps": withTools,
  "structured output": structured,
  image,
  "429 first": plain,
  "empty response": plain,
  streaming,
};

const rows = Object.fromEntries(
  Object.entries(ROWS).map(([name, row]) => [
    name,
    Object.fromEntries(Object.entries(SCENARIOS).map(([scenario, run]) => [scenario, (job) => run(job, row)])),
  ]),
);
await main(rows);
