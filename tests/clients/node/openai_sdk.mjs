// OpenAI's own SDK: Chat Completions and Responses, with its runners of tools and its parsers.
import OpenAI from "openai";
import { ResponsesToolRunner } from "openai/helpers/responses-tool-runner";
import { zodResponseFormat, zodTextFormat } from "openai/helpers/zod";
import { z } from "zod";
import { CITY, DECLARED, KEY, main, seen, tools, URL } from "./program.mjs";

const client = new OpenAI({ apiKey: KEY, baseURL: `${URL}/v1` });
const City = z.object({ name: z.string(), population: z.number().int() });
const picture = (job) => `data:image/png;base64,${job.image}`;

// Chat Completions

const DECLARATIONS = Object.entries(DECLARED).map(([name, description]) => ({
  name,
  description,
  parameters: CITY,
  strict: true,
}));
const chatTools = DECLARATIONS.map((declared) => ({ type: "function", function: declared }));
const said = (job) => [{ role: "user", content: job.prompt }];

const runnable = (used) =>
  Object.entries(DECLARED).map(([name, description]) => ({
    type: "function",
    function: { name, description, parameters: CITY, parse: JSON.parse, function: (input) => used.run(name, input) },
  }));

async function chatPlain(job) {
  const done = await client.chat.completions.create({ model: job.model, messages: said(job) });
  const { message, finish_reason: finish } = done.choices[0];
  return seen({ text: message.content, more: { finish, output: done.usage.completion_tokens } });
}

async function chatTool(job) {
  const used = tools();
  const runner = client.chat.completions.runTools({ model: job.model, messages: said(job), tools: runnable(used) });
  return seen({ text: await runner.finalContent(), ran: used.ran });
}

async function chatStreaming(job) {
  const used = tools();
  const runner = client.chat.completions.runTools({
    model: job.model,
    messages: said(job),
    tools: runnable(used),
    stream: true,
    stream_options: { include_usage: true },
  });
  let text = "";
  for await (const chunk of runner) text += chunk.choices[0]?.delta.content ?? "";
  const usage = await runner.totalUsage();
  return seen({ text, ran: used.ran, more: { output: usage.completion_tokens } });
}

// Reasoning is no part of the SDK's types for Chat, but it hands over what it gets, and sends on what it is given.
async function chatThinking(job) {
  const used = tools();
  const messages = said(job);
  const rest = { model: job.model, tools: chatTools, reasoning_effort: "high" };
  let thinking = "";
  for (;;) {
    const { message } = (await client.chat.completions.create({ ...rest, messages })).choices[0];
    messages.push(message);
    thinking += message.reasoning_content ?? "";
    for (const call of message.tool_calls ?? []) {
      const content = used.run(call.function.name, JSON.parse(call.function.arguments));
      messages.push({ role: "tool", tool_call_id: call.id, content });
    }
    if (!message.tool_calls?.length) return seen({ text: message.content, thinking, ran: used.ran });
  }
}

async function chatStructured(job) {
  const done = await client.chat.completions.parse({
    model: job.model,
    messages: said(job),
    response_format: zodResponseFormat(City, "city"),
  });
  return seen({ value: done.choices[0].message.parsed });
}

async function chatImage(job) {
  const content = [
    { type: "text", text: job.prompt },
    { type: "image_url", image_url: { url: picture(job) } },
  ];
  const done = await client.chat.completions.create({ model: job.model, messages: [{ role: "user", content }] });
  return seen({ text: done.choices[0].message.content });
}

// Responses

async function plain(job) {
  const done = await client.responses.create({ model: job.model, input: job.prompt });
  return seen({ text: done.output_text, more: { finish: done.status, output: done.usage.output_tokens } });
}

const responsesTools = DECLARATIONS.map((declared) => ({ type: "function", ...declared }));
const functions = (used) =>
  responsesTools.map((tool) => ({ tool, execute: (input) => used.run(tool.name, input) }));

// The runner keeps the conversation itself, and sends it whole.
async function withRunner(job, stream) {
  const used = tools();
  const runner = new ResponsesToolRunner({ functions: functions(used) });
  let text = "";
  const onEvent = (event) => {
    if (event.type === "response.output_text.delta") text += event.delta;
  };
  const params = { model: job.model, input: said(job) };
  const done = await runner.run(client, params, stream ? { stream, onEvent } : {});
  return seen({ text: stream ? text : done.output_text, ran: used.ran, more: { output: done.usage.output_tokens } });
}

// What the service keeps is asked for by its id.
async function stored(job) {
  const first = await client.responses.create({ model: job.model, input: job.prompt });
  const next = { model: job.model, input: "And then?", previous_response_id: first.id };
  const second = await client.responses.create(next);
  const found = await client.responses.retrieve(first.id);
  await client.responses.delete(first.id);
  const gone = await client.responses.retrieve(first.id).catch((error) => error.status);
  const same = found.output_text === first.output_text;
  return seen({ text: `${first.output_text} ${second.output_text}`, more: { same, gone } });
}

// Without state: the conversation goes back and forth whole, its reasoning encrypted.
async function thinking(job) {
  const used = tools();
  const input = said(job);
  let thoughts = "";
  for (;;) {
    const stream = await client.responses.create({
      stream: true,
      model: job.model,
      input,
      tools: responsesTools,
      store: false,
      include: ["reasoning.encrypted_content"],
      reasoning: { effort: "high", summary: "auto" },
    });
    let output;
    for await (const event of stream) {
      if (event.type === "response.reasoning_summary_text.delta") thoughts += event.delta;
      if (event.type === "response.completed") output = event.response.output;
    }
    input.push(...output);
    const calls = output.filter((item) => item.type === "function_call");
    for (const call of calls) {
      const result = used.run(call.name, JSON.parse(call.arguments));
      input.push({ type: "function_call_output", call_id: call.call_id, output: result });
    }
    if (!calls.length) return seen({ text: output.at(-1).content[0].text, thinking: thoughts, ran: used.ran });
  }
}

async function structured(job) {
  const text = { format: zodTextFormat(City, "city") };
  const done = await client.responses.parse({ model: job.model, input: job.prompt, text });
  return seen({ value: done.output_parsed });
}

async function image(job) {
  const content = [
    { type: "input_text", text: job.prompt },
    { type: "input_image", image_url: picture(job), detail: "auto" },
  ];
  const done = await client.responses.create({ model: job.model, input: [{ role: "user", content }] });
  return seen({ text: done.output_text });
}

await main({
  chat: {
    tool: chatTool,
    thinking: chatThinking,
    "parallel tools": chatTool,
    "several steps": chatTool,
    "structured output": chatStructured,
    image: chatImage,
    "429 first": chatPlain,
    "empty response": chatPlain,
    streaming: chatStreaming,
  },
  responses: {
    tool: (job) => withRunner(job, false),
    thinking,
    "parallel tools": (job) => withRunner(job, false),
    "several steps": (job) => withRunner(job, false),
    "structured output": structured,
    image,
    "429 first": plain,
    "empty response": plain,
    streaming: (job) => withRunner(job, true),
    "stored state": stored,
  },
});
