"""The OpenAI Agents SDK: Responses with and without state on the server, conversations, and Chat Completions."""

from __future__ import annotations

import asyncio
from typing import Any

import openai
from agents import (
    Agent,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIConversationsSession,
    OpenAIResponsesModel,
    RunConfig,
    Runner,
    SQLiteSession,
    function_tool,
)
from agents.items import ReasoningItem
from agents.result import RunResultBase
from openai.types.shared import Reasoning
from program import KEY, URL, Job, Seen, Tools, main
from pydantic import BaseModel

# Nothing is sent to the makers of the client.
CONFIG = RunConfig(tracing_disabled=True)


class City(BaseModel):
    """A city and how many live there."""

    name: str
    population: int


def client() -> openai.AsyncOpenAI:
    """The SDK beneath, with its usual retries."""
    return openai.AsyncOpenAI(api_key=KEY, base_url=f"{URL}/v1", timeout=60)


def agent_of(job: Job, tools: Tools | None = None, *, stateless: bool = True, output: type | None = None) -> Agent:
    """An agent on the model class that a row is about."""
    if job.row == "chat":
        model: Any = OpenAIChatCompletionsModel(model=job.model, openai_client=client())
        settings = ModelSettings(reasoning=Reasoning(effort="high"))
    else:
        model = OpenAIResponsesModel(model=job.model, openai_client=client())
        settings = ModelSettings(reasoning=Reasoning(effort="high", summary="auto"))
        if stateless:
            settings.store = False
            settings.response_include = ["reasoning.encrypted_content"]
    given = [function_tool(tools.get_weather), function_tool(tools.get_time)] if tools else []
    return Agent(
        name="Tester",
        instructions="Do as you are told.",
        model=model,
        tools=given,
        model_settings=settings,
        output_type=output,
    )


def seen_in(done: RunResultBase, tools: Tools | None = None) -> Seen:
    """What a run came to."""
    thoughts = [
        part.text
        for item in done.new_items
        if isinstance(item, ReasoningItem)
        for part in item.raw_item.summary or item.raw_item.content or ()
    ]
    return Seen(text=done.final_output or "", thinking="".join(thoughts), ran=tools.ran if tools else [])


def with_tools(job: Job) -> Seen:
    """A streamed run that keeps its history itself."""
    tools = Tools()

    async def run() -> Seen:
        done = Runner.run_streamed(agent_of(job, tools), job.prompt, run_config=CONFIG)
        async for _ in done.stream_events():
            pass
        return seen_in(done, tools)

    return asyncio.run(run())


def stored(job: Job) -> Seen:
    """Two runs, the second of which goes on from the first by `previous_response_id`; so does each turn in between."""
    tools = Tools()

    async def run() -> Seen:
        agent = agent_of(job, tools, stateless=False)
        first = await Runner.run(agent, job.prompt, run_config=CONFIG, auto_previous_response_id=True)
        again = await Runner.run(agent, "And now?", run_config=CONFIG, previous_response_id=first.last_response_id)
        seen = seen_in(first, tools)
        seen.more = {"again": again.final_output}
        return seen

    return asyncio.run(run())


def conversation(job: Job) -> Seen:
    """Two runs over a conversation that the server keeps, looked at and deleted in the end."""
    tools = Tools()

    async def run() -> Seen:
        made = await client().conversations.create()
        agent = agent_of(job, tools, stateless=False)
        first = await Runner.run(agent, job.prompt, run_config=CONFIG, conversation_id=made.id)
        again = await Runner.run(agent, "And now?", run_config=CONFIG, conversation_id=made.id)
        items = await client().conversations.items.list(made.id, order="asc")
        kinds = [item.type for item in items.data]
        await client().conversations.delete(made.id)
        seen = seen_in(first, tools)
        seen.more = {"again": again.final_output, "items": kinds}
        return seen

    return asyncio.run(run())


def session(job: Job) -> Seen:
    """Two runs over a session: of the server's conversations, or kept in this process where there is no state."""
    tools = Tools()

    async def run() -> Seen:
        agent = agent_of(job, tools)
        kept: Any = SQLiteSession("here") if job.row == "chat" else OpenAIConversationsSession(openai_client=client())
        first = await Runner.run(agent, job.prompt, run_config=CONFIG, session=kept)
        again = await Runner.run(agent, "And now?", run_config=CONFIG, session=kept)
        seen = seen_in(first, tools)
        seen.more = {
            "again": again.final_output,
            "items": [item.get("type", item.get("role")) for item in await kept.get_items()],
        }
        await kept.clear_session()
        return seen

    return asyncio.run(run())


def plain(job: Job) -> Seen:
    """One question; retries are the SDK's own."""
    content: Any = [{"type": "input_text", "text": job.prompt}]
    if job.image:
        url = f"data:image/png;base64,{job.image}"
        content.append({"type": "input_image", "image_url": url, "detail": "auto"})
    done = asyncio.run(Runner.run(agent_of(job), [{"role": "user", "content": content}], run_config=CONFIG))
    return seen_in(done)


def structured(job: Job) -> Seen:
    """`output_type`."""
    done = asyncio.run(Runner.run(agent_of(job, output=City), job.prompt, run_config=CONFIG))
    return Seen(value=done.final_output.model_dump())


SCENARIOS = {
    "tool": with_tools,
    "thinking": with_tools,
    "parallel tools": with_tools,
    "several steps": with_tools,
    "structured output": structured,
    "image": plain,
    "429 first": plain,
    "empty response": plain,
    "session": session,
}

if __name__ == "__main__":
    main({"chat": SCENARIOS, "responses": {**SCENARIOS, "stored": stored, "conversation": conversation}})
