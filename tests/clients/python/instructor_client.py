"""Instructor: models of Pydantic out of OpenAI and Anthropic clients, by tools and by the service's own format."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

import anthropic
import instructor
import openai
from instructor.core.exceptions import InstructorRetryException
from instructor.processing.multimodal import Image
from program import KEY, URL, Job, Seen, main
from pydantic import BaseModel, Field

MOST_TOKENS = 8000
TOOLS = {
    "chat": instructor.Mode.TOOLS,
    "responses": instructor.Mode.RESPONSES_TOOLS,
    "anthropic": instructor.Mode.ANTHROPIC_TOOLS,
}
FORMATS = {"chat": instructor.Mode.JSON_SCHEMA, "anthropic": instructor.Mode.ANTHROPIC_JSON}
PARALLEL = {"chat": instructor.Mode.PARALLEL_TOOLS, "anthropic": instructor.Mode.ANTHROPIC_PARALLEL_TOOLS}


class City(BaseModel):
    """A city and how many live there."""

    name: str
    population: int = Field(ge=0)


class Weather(BaseModel):
    """The weather in a city."""

    city: str


class Time(BaseModel):
    """The time of day in a city."""

    city: str


@cache
def openai_client() -> openai.OpenAI:
    """The SDK beneath, with its usual retries."""
    return openai.OpenAI(api_key=KEY, base_url=f"{URL}/v1", timeout=60)


@cache
def anthropic_client() -> anthropic.Anthropic:
    """The SDK beneath, with its usual retries."""
    return anthropic.Anthropic(api_key=KEY, base_url=URL, timeout=60)


def asked(job: Job, mode: instructor.Mode, wanted: object, content: object = None, retries: int = 2) -> object:
    """What comes out for a prompt; a value that is wrong is asked for again."""
    given: Any = {"model": job.model, "response_model": wanted, "max_retries": retries}
    given["messages"] = [{"role": "user", "content": job.prompt if content is None else content}]
    client: Any
    if job.row == "anthropic":
        client = instructor.from_anthropic(anthropic_client(), mode=mode)
        given["max_tokens"] = MOST_TOKENS
    else:
        client = instructor.from_openai(openai_client(), mode=mode)
    return client.create(**given)


def seen_in(found: object) -> Seen:
    """The value that came out."""
    assert isinstance(found, City)
    return Seen(value=found.model_dump())


def by_tool(job: Job) -> Seen:
    """The schema as a tool."""
    return seen_in(asked(job, TOOLS[job.row], City))


def by_format(job: Job) -> Seen:
    """The schema as the service's own output format, or in the prompt."""
    return seen_in(asked(job, FORMATS[job.row], City))


def in_parallel(job: Job) -> Seen:
    """Several models at once."""
    found = asked(job, PARALLEL[job.row], Iterable[Weather | Time])
    assert isinstance(found, Iterable)
    return Seen(value=[[type(one).__name__, one.city] for one in found])


def with_image(job: Job) -> Seen:
    """A picture beside the prompt."""
    picture = Image.from_base64(f"data:image/png;base64,{job.image}")
    return seen_in(asked(job, TOOLS[job.row], City, [job.prompt, picture]))


def nothing(job: Job) -> Seen:
    """An answer without a value, and no second try."""
    try:
        asked(job, TOOLS[job.row], City, retries=0)
    except InstructorRetryException as error:
        return Seen(more={"attempts": error.n_attempts})
    raise AssertionError("a value came out of an empty response")


SCENARIOS = {
    "tool": by_tool,
    "several steps": by_tool,
    "image": with_image,
    "429 first": by_tool,
    "empty response": nothing,
}
MORE = {"parallel tools": in_parallel, "structured output": by_format}

if __name__ == "__main__":
    main({"chat": {**SCENARIOS, **MORE}, "responses": SCENARIOS, "anthropic": {**SCENARIOS, **MORE}})
