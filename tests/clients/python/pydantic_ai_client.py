"""pydantic-ai with its model classes for Chat, Responses and Anthropic."""

from __future__ import annotations

import base64
from typing import Any

from program import KEY, URL, Job, Seen, Tools, main
from pydantic import BaseModel
from pydantic_ai import Agent, BinaryContent, NativeOutput, ToolOutput
from pydantic_ai.messages import ModelResponse, ThinkingPart
from pydantic_ai.models import Model
from pydantic_ai.models.anthropic import AnthropicModel, AnthropicModelSettings
from pydantic_ai.models.openai import (
    OpenAIChatModel,
    OpenAIChatModelSettings,
    OpenAIResponsesModel,
    OpenAIResponsesModelSettings,
)
from pydantic_ai.profiles.anthropic import anthropic_model_profile
from pydantic_ai.profiles.openai import openai_model_profile
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider


class City(BaseModel):
    """A city and how many live there."""

    name: str
    population: int


def model_of(job: Job) -> Model:
    """The model class that a row is about; what it knows of a model goes by the plain name."""
    if job.row == "anthropic":
        profile = anthropic_model_profile("claude-opus-5")
        return AnthropicModel(job.model, provider=AnthropicProvider(api_key=KEY, base_url=URL), profile=profile)
    provider = OpenAIProvider(api_key=KEY, base_url=f"{URL}/v1")
    if job.row == "responses":
        return OpenAIResponsesModel(job.model, provider=provider, profile=openai_model_profile("gpt-5.1"))
    return OpenAIChatModel(job.model, provider=provider)


SETTINGS: dict[str, Any] = {
    "anthropic": AnthropicModelSettings(
        max_tokens=8000, anthropic_thinking={"type": "adaptive", "display": "summarized"}
    ),
    "responses": OpenAIResponsesModelSettings(openai_reasoning_effort="high", openai_reasoning_summary="auto"),
    "chat": OpenAIChatModelSettings(openai_reasoning_effort="high"),
}


def with_tools(job: Job) -> Seen:
    """An agent with tools, over streams."""
    tools = Tools()
    agent = Agent(model_of(job), tools=[tools.get_weather, tools.get_time], model_settings=SETTINGS[job.row])
    done = agent.run_stream_sync(job.prompt)
    text = done.get_output()
    thoughts = [
        part.content
        for message in done.all_messages()
        if isinstance(message, ModelResponse)
        for part in message.parts
        if isinstance(part, ThinkingPart)
    ]
    return Seen(text=text, thinking="".join(thoughts), ran=tools.ran)


def plain(job: Job) -> Seen:
    """A question without a stream."""
    prompt: Any = job.prompt
    if job.image:
        prompt = [job.prompt, BinaryContent(base64.b64decode(job.image), media_type="image/png")]
    return Seen(text=Agent(model_of(job)).run_sync(prompt).output)


def structured(job: Job) -> Seen:
    """The schema as the service's own output format."""
    done = Agent(model_of(job), output_type=NativeOutput(City)).run_sync(job.prompt)
    return Seen(value=done.output.model_dump())


def structured_by_tool(job: Job) -> Seen:
    """The schema as a tool, which is pydantic-ai's own way."""
    done = Agent(model_of(job), output_type=ToolOutput(City, name="city")).run_sync(job.prompt)
    return Seen(value=done.output.model_dump())


SCENARIOS = {
    "tool": with_tools,
    "thinking": with_tools,
    "parallel tools": with_tools,
    "several steps": with_tools,
    "structured output": structured,
    "structured output by tool": structured_by_tool,
    "image": plain,
    "429 first": plain,
    "empty response": plain,
}

if __name__ == "__main__":
    main({"anthropic": SCENARIOS, "chat": SCENARIOS, "responses": SCENARIOS})
