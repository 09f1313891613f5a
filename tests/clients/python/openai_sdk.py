"""The official OpenAI SDK on its own: Chat Completions and Responses."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import openai
from program import CITY, DECLARED, KEY, URL, Job, Seen, Tools, main
from pydantic import BaseModel

MOST_TURNS = 6


class City(BaseModel):
    """A city and how many live there."""

    name: str
    population: int


@cache
def client() -> openai.OpenAI:
    """The SDK with its usual retries."""
    return openai.OpenAI(api_key=KEY, base_url=f"{URL}/v1", timeout=60)


# Chat Completions

CHAT_TOOLS: Any = [
    {"type": "function", "function": {"name": name, "description": words, "parameters": CITY, "strict": True}}
    for name, words in DECLARED.items()
]


def chat_tools(job: Job) -> Seen:
    """The usual loop: stream a turn, run what it calls, say so."""
    tools, seen = Tools(), Seen()
    messages: list[Any] = [{"role": "user", "content": job.prompt}]
    for _ in range(MOST_TURNS):
        with client().chat.completions.stream(
            model=job.model, messages=messages, tools=CHAT_TOOLS, reasoning_effort="high"
        ) as stream:
            for event in stream:
                if event.type == "chunk" and event.chunk.choices:
                    seen.thinking += getattr(event.chunk.choices[0].delta, "reasoning_content", None) or ""
            message = stream.get_final_completion().choices[0].message
        messages.append(message)
        if not message.tool_calls:
            seen.text = message.content or ""
            break
        for call in message.tool_calls:
            given = tools.run(call.function.name, json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": given})
    seen.ran = tools.ran
    return seen


def chat_whole(job: Job) -> Seen:
    """One question without a stream; retries are the SDK's own."""
    content: Any = job.prompt
    if job.image:
        url = f"data:image/png;base64,{job.image}"
        content = [{"type": "text", "text": job.prompt}, {"type": "image_url", "image_url": {"url": url}}]
    done = client().chat.completions.create(model=job.model, messages=[{"role": "user", "content": content}])
    return Seen(text=done.choices[0].message.content or "", more={"finish": done.choices[0].finish_reason})


def chat_structured(job: Job) -> Seen:
    """`.parse` with a Pydantic model."""
    messages: Any = [{"role": "user", "content": job.prompt}]
    done = client().chat.completions.parse(model=job.model, messages=messages, response_format=City)
    parsed = done.choices[0].message.parsed
    return Seen(value=parsed.model_dump() if parsed else None)


# Responses

RESPONSES_TOOLS: Any = [
    {"type": "function", "name": name, "description": words, "parameters": CITY, "strict": True}
    for name, words in DECLARED.items()
]


def responses_tools(job: Job) -> Seen:
    """The loop without state on the server: everything goes back as it came."""
    tools, seen = Tools(), Seen()
    items: list[Any] = [{"role": "user", "content": job.prompt}]
    for _ in range(MOST_TURNS):
        with client().responses.stream(
            model=job.model,
            input=items,
            tools=RESPONSES_TOOLS,
            store=False,
            include=["reasoning.encrypted_content"],
            reasoning={"effort": "high", "summary": "auto"},
        ) as stream:
            for event in stream:
                if event.type in ("response.reasoning_summary_text.delta", "response.reasoning_text.delta"):
                    seen.thinking += event.delta
            done = stream.get_final_response()
        calls = [item for item in done.output if item.type == "function_call"]
        items += [item.to_dict(exclude_unset=True) for item in done.output]
        for item in items:
            # The SDK's own addition to what it parsed.
            item.pop("parsed_arguments", None)
        if not calls:
            seen.text = done.output_text
            break
        for call in calls:
            given = tools.run(call.name, json.loads(call.arguments))
            items.append({"type": "function_call_output", "call_id": call.call_id, "output": given})
    seen.ran = tools.ran
    return seen


def responses_stored(job: Job) -> Seen:
    """The loop with the conversation kept by the gateway: only what is new is sent."""
    tools, seen = Tools(), Seen()
    new: Any = [{"role": "user", "content": job.prompt}]
    previous: str | None = None
    for _ in range(MOST_TURNS):
        done = client().responses.create(
            model=job.model,
            input=new,
            tools=RESPONSES_TOOLS,
            previous_response_id=previous,
            reasoning={"effort": "high", "summary": "auto"},
        )
        previous = done.id
        calls = [item for item in done.output if item.type == "function_call"]
        seen.thinking += "".join(
            [
                part.text
                for item in done.output
                if item.type == "reasoning"
                for part in item.summary or item.content or ()
            ]
        )
        if not calls:
            seen.text = done.output_text
            break
        new = [
            {
                "type": "function_call_output",
                "call_id": call.call_id,
                "output": tools.run(call.name, json.loads(call.arguments)),
            }
            for call in calls
        ]
    assert previous is not None
    kept = client().responses.retrieve(previous)
    seen.more = {"kept": kept.output_text, "input": len(client().responses.input_items.list(previous).data)}
    client().responses.delete(previous)
    try:
        client().responses.retrieve(previous)
    except openai.NotFoundError:
        seen.more["deleted"] = True
    seen.ran = tools.ran
    return seen


def responses_whole(job: Job) -> Seen:
    """One question without a stream; retries are the SDK's own."""
    content: Any = [{"type": "input_text", "text": job.prompt}]
    if job.image:
        url = f"data:image/png;base64,{job.image}"
        content.append({"type": "input_image", "image_url": url, "detail": "auto"})
    done = client().responses.create(model=job.model, input=[{"role": "user", "content": content}])
    return Seen(text=done.output_text, more={"status": done.status})


def responses_structured(job: Job) -> Seen:
    """`.parse` with a Pydantic model."""
    done = client().responses.parse(model=job.model, input=job.prompt, text_format=City)
    return Seen(value=done.output_parsed.model_dump() if done.output_parsed else None)


if __name__ == "__main__":
    main(
        {
            "chat": {
                "tool": chat_tools,
                "thinking": chat_tools,
                "parallel tools": chat_tools,
                "several steps": chat_tools,
                "structured output": chat_structured,
                "image": chat_whole,
                "429 first": chat_whole,
                "empty response": chat_whole,
            },
            "responses": {
                "tool": responses_tools,
                "thinking": responses_tools,
                "parallel tools": responses_tools,
                "several steps": responses_tools,
                "structured output": responses_structured,
                "image": responses_whole,
                "429 first": responses_whole,
                "empty response": responses_whole,
                "stored": responses_stored,
            },
        }
    )
