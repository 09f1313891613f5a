// Anthropic's own SDK: Messages, its streams, its parser, and its tool runner, which keeps a thread by default.
import Anthropic from "@anthropic-ai/sdk";
import { betaTool } from "@anthropic-ai/sdk/helpers/beta/json-schema";
import { zodOutputFormat } from "@anthropic-ai/sdk/helpers/zod";
import { z } from "zod";
import { CITY, DECLARED, KEY, main, seen, tools, URL } from "./program.mjs";

const client = new Anthropic({ apiKey: KEY, baseURL: URL });
const City = z.object({ name: z.string(), population: z.number().int() });
const asked = (job) => ({ model: job.model, max_tokens: 4000, messages: [{ role: "user", content: job.prompt }] });
const blocks = (message, type) => message.content.filter((block) => block.type === type);
const textOf = (message) =>
  blocks(message, "text")
    .map((block) => block.text)
    .join("");

async function plain(job) {
  const done = await client.messages.create(asked(job));
  return seen({ text: textOf(done), more: { finish: done.stop_reason, output: done.usage.output_tokens } });
}

const runnable = (used) =>
  Object.entries(DECLARED).map(([name, description]) =>
    betaTool({ name, description, inputSchema: CITY, run: (input) => used.run(name, input) }),
  );

async function withRunner(job) {
  const used = tools();
  const done = await client.beta.messages.toolRunner({ ...asked(job), tools: runnable(used) });
  return seen({ text: textOf(done), ran: used.ran });
}

async function streamed(job) {
  const used = tools();
  const runner = client.beta.messages.toolRunner({ ...asked(job), tools: runnable(used), stream: true });
  let text = "";
  let output = 0;
  for await (const stream of runner) {
    stream.on("text", (delta) => (text += delta));
    output += (await stream.finalMessage()).usage.output_tokens;
  }
  return seen({ text, ran: used.ran, more: { output } });
}

// The plain stream, its conversation kept by hand.
async function thinking(job) {
  const used = tools();
  const declared = Object.entries(DECLARED).map(([name, description]) => ({ name, description, input_schema: CITY }));
  const messages = asked(job).messages;
  let thoughts = "";
  for (;;) {
    const stream = client.messages.stream({
      ...asked(job),
      messages,
      tools: declared,
      thinking: { type: "adaptive", display: "summarized" },
    });
    stream.on("thinking", (delta) => (thoughts += delta));
    const done = await stream.finalMessage();
    messages.push({ role: "assistant", content: done.content });
    const calls = blocks(done, "tool_use");
    if (!calls.length) return seen({ text: textOf(done), thinking: thoughts, ran: used.ran });
    const results = calls.map((call) => [call.id, used.run(call.name, call.input)]);
    messages.push({
      role: "user",
      content: results.map(([id, content]) => ({ type: "tool_result", tool_use_id: id, content })),
    });
  }
}

async function structured(job) {
  const done = await client.messages.parse({ ...asked(job), output_config: { format: zodOutputFormat(City) } });
  return seen({ value: done.parsed_output });
}

async function image(job) {
  const source = { type: "base64", media_type: "image/png", data: job.image };
  const content = [
    { type: "text", text: job.prompt },
    { type: "image", source },
  ];
  return seen({ text: textOf(await client.messages.create({ ...asked(job), messages: [{ role: "user", content }] })) });
}

async function counting(job) {
  const { max_tokens: _, ...rest } = asked(job);
  return seen({ value: (await client.messages.countTokens(rest)).input_tokens });
}

await main({
  messages: {
    tool: withRunner,
    thinking,
    "parallel tools": withRunner,
    "several steps": withRunner,
    "structured output": structured,
    image,
    "429 first": plain,
    "empty response": plain,
    streaming: streamed,
    "token count": counting,
  },
});
