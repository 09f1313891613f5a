"""LangChain: ChatOpenAI in both of its modes, and ChatAnthropic."""

from __future__ import annotations

from typing import Any

from langchain_anthropic import ChatAnthropic
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage, ToolMessage, message_chunk_to_message
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from program import KEY, URL, Job, Seen, Tools, main
from pydantic import BaseModel

MOST_TURNS = 6


class City(BaseModel):
    """A city and how many live there."""

    name: str
    population: int


def model_of(job: Job, *, thinking: bool = True) -> BaseChatModel:
    """The chat model that a row is about."""
    if job.row == "anthropic":
        more: Any = {"thinking": {"type": "adaptive", "display": "summarized"}} if thinking else {}
        return ChatAnthropic(model=job.model, api_key=KEY, base_url=URL, max_tokens=8000, **more)
    if job.row == "responses":
        more = {
            "reasoning": {"effort": "high", "summary": "auto"},
            "include": ["reasoning.encrypted_content"],
            "store": False,
        }
        return ChatOpenAI(
            model=job.model, api_key=KEY, base_url=f"{URL}/v1", use_responses_api=True, **(more if thinking else {})
        )
    more = {"reasoning_effort": "high"} if thinking else {}
    return ChatOpenAI(model=job.model, api_key=KEY, base_url=f"{URL}/v1", use_responses_api=False, **more)


def with_tools(job: Job) -> Seen:
    """`bind_tools`, and the usual loop over streams."""
    tools, seen = Tools(), Seen()
    given = {one.name: one for one in (tool(tools.get_weather), tool(tools.get_time))}
    model = model_of(job).bind_tools(list(given.values()))
    messages: list[Any] = [HumanMessage(job.prompt)]
    for _ in range(MOST_TURNS):
        whole: Any = None
        for chunk in model.stream(messages):
            whole = chunk if whole is None else whole + chunk
        answer = message_chunk_to_message(whole)
        messages.append(answer)
        seen.thinking += "".join(
            [block.get("reasoning", "") for block in answer.content_blocks if block["type"] == "reasoning"]
        )
        if not answer.tool_calls:
            seen.text = answer.text
            break
        messages += [
            ToolMessage(given[call["name"]].invoke(call["args"]), tool_call_id=call["id"]) for call in answer.tool_calls
        ]
    seen.ran = tools.ran
    return seen


def plain(job: Job) -> Seen:
    """One question without a stream; retries are the client's own."""
    content: Any = [{"type": "text", "text": job.prompt}]
    if job.image:
        content.append({"type": "image", "base64": job.image, "mime_type": "image/png"})
    return Seen(text=model_of(job, thinking=False).invoke([HumanMessage(content)]).text)


def structured(job: Job) -> Seen:
    """`with_structured_output` by the service's own output format."""
    model = model_of(job, thinking=False).with_structured_output(City, method="json_schema")
    return Seen(value=model.invoke(job.prompt).model_dump())


def structured_by_tool(job: Job) -> Seen:
    """`with_structured_output` by a tool that has to be called."""
    model = model_of(job, thinking=False).with_structured_output(City, method="function_calling")
    return Seen(value=model.invoke(job.prompt).model_dump())


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
