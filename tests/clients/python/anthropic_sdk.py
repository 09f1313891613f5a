"""The official Anthropic SDK on its own: Messages, by hand and with its tool runner."""

from __future__ import annotations

from functools import cache
from typing import Any

import anthropic
from program import CITY, DECLARED, KEY, URL, Job, Seen, Tools, main
from pydantic import BaseModel

MOST_TURNS = 6
MOST_TOKENS = 8000
THINKING: Any = {"type": "adaptive", "display": "summarized"}
TOOLS: Any = [{"name": name, "description": words, "input_schema": CITY} for name, words in DECLARED.items()]


class City(BaseModel):
    """A city and how many live there."""

    name: str
    population: int


@cache
def client() -> anthropic.Anthropic:
    """The SDK with its usual retries."""
    return anthropic.Anthropic(api_key=KEY, base_url=URL, timeout=60)


def by_hand(job: Job) -> Seen:
    """The usual loop: stream a turn, run what it calls, say so."""
    tools, seen = Tools(), Seen()
    messages: list[Any] = [{"role": "user", "content": job.prompt}]
    for _ in range(MOST_TURNS):
        with client().messages.stream(
            model=job.model, messages=messages, tools=TOOLS, max_tokens=MOST_TOKENS, thinking=THINKING
        ) as stream:
            for event in stream:
                if event.type == "thinking":
                    seen.thinking += event.thinking
            message = stream.get_final_message()
        calls = [block for block in message.content if block.type == "tool_use"]
        if not calls:
            seen.text = "".join([block.text for block in message.content if block.type == "text"])
            break
        messages.append({"role": "assistant", "content": message.content})
        results = [
            {"type": "tool_result", "tool_use_id": call.id, "content": tools.run(call.name, dict(call.input))}
            for call in calls
        ]
        messages.append({"role": "user", "content": results})
    seen.ran = tools.ran
    return seen


def by_runner(job: Job, *, stream: bool = False) -> Seen:
    """The SDK's own loop, which asks for a thread unless it is told not to."""
    tools, seen = Tools(), Seen()
    given = [
        anthropic.beta_tool(tools.get_weather, name="get_weather"),
        anthropic.beta_tool(tools.get_time, name="get_time"),
    ]
    runner = client().beta.messages.tool_runner(
        model=job.model,
        max_tokens=MOST_TOKENS,
        tools=given,
        messages=[{"role": "user", "content": job.prompt}],
        thinking=THINKING,
        stream=stream,
    )
    for turn in runner:
        message = turn.get_final_message() if stream else turn
        seen.thinking += "".join([block.thinking for block in message.content if block.type == "thinking"])
        seen.text = "".join([block.text for block in message.content if block.type == "text"])
    seen.ran = tools.ran
    return seen


def by_streaming_runner(job: Job) -> Seen:
    """The SDK's own loop over streams."""
    return by_runner(job, stream=True)


def whole(job: Job) -> Seen:
    """One question without a stream; retries are the SDK's own."""
    content: Any = [{"type": "text", "text": job.prompt}]
    if job.image:
        source = {"type": "base64", "media_type": "image/png", "data": job.image}
        content.append({"type": "image", "source": source})
    done = client().messages.create(
        model=job.model, max_tokens=MOST_TOKENS, messages=[{"role": "user", "content": content}]
    )
    text = "".join([block.text for block in done.content if block.type == "text"])
    return Seen(text=text, more={"stop": done.stop_reason})


def structured(job: Job) -> Seen:
    """`.parse` with a Pydantic model."""
    messages: Any = [{"role": "user", "content": job.prompt}]
    done = client().messages.parse(model=job.model, max_tokens=MOST_TOKENS, messages=messages, output_format=City)
    return Seen(value=done.parsed_output.model_dump() if done.parsed_output else None)


if __name__ == "__main__":
    main(
        {
            "messages": {
                "tool": by_hand,
                "thinking": by_hand,
                "parallel tools": by_hand,
                "several steps": by_hand,
                "structured output": structured,
                "image": whole,
                "429 first": whole,
                "empty response": whole,
            },
            "tool runner": {
                "tool": by_streaming_runner,
                "thinking": by_streaming_runner,
                "parallel tools": by_runner,
                "several steps": by_runner,
                "429 first": by_runner,
                "empty response": by_runner,
            },
        }
    )
