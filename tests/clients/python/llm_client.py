"""The `llm` command, run in this process: its own OpenAI-compatible models on both wires, and llm-anthropic."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path

from click.testing import CliRunner
from program import KEY, URL, Job, Seen, main

# What llm keeps of its user; the home is one of this run.
USER = Path.home() / "llm"
RAN = USER / "ran.jsonl"
FUNCTIONS = f'''
import json

def _ran(*told):
    with open({str(RAN)!r}, "a") as file:
        file.write(json.dumps(told) + "\\n")

def get_weather(city: str) -> str:
    """The weather in a city."""
    _ran("get_weather", city)
    return f"sunny in {{city}}"

def get_time(city: str) -> str:
    """The time of day in a city."""
    _ran("get_time", city)
    return f"noon in {{city}}"
'''
THINKING = {
    "chat": ("-o", "reasoning_effort", "high"),
    "responses": ("-o", "reasoning_effort", "high"),
    "anthropic": ("-o", "thinking_effort", "high"),
}


def configure(job: Job) -> str:
    """Make a model known, as a user would, and give its name."""
    USER.mkdir(exist_ok=True)
    RAN.write_text("")
    os.environ.update(LLM_USER_PATH=str(USER), ANTHROPIC_BASE_URL=URL, ANTHROPIC_API_KEY=KEY)
    if job.row == "anthropic":
        # What `llm anthropic refresh` writes.
        (USER / "anthropic_models.json").write_text(json.dumps({"data": [{"id": job.model, "max_tokens": 8000}]}))
        return f"anthropic/{job.model}"
    name = f"gateway-{job.row}"
    model = {
        "model_id": name,
        "model_name": job.model,
        "api_base": f"{URL}/v1",
        "api_key_name": "gateway",
        "reasoning": True,
        "supports_tools": True,
        "supports_schema": True,
        "vision": True,
        "responses": job.row == "responses",
    }
    # JSON is YAML, too.
    (USER / "extra-openai-models.yaml").write_text(json.dumps([model]))
    (USER / "keys.json").write_text(json.dumps({"gateway": KEY}))
    return name


def run(job: Job, *words: str) -> Seen:
    """One run of the command."""
    name = configure(job)
    # It knows its models from when it is loaded.
    from llm.cli import cli

    done = CliRunner().invoke(cli, ["prompt", "-m", name, *words, job.prompt])
    if done.exit_code:
        raise RuntimeError(f"llm ended with {done.exit_code}: {done.output}") from done.exception
    ran = [json.loads(line) for line in RAN.read_text().splitlines()]
    return Seen(text=done.stdout.strip(), thinking=done.stderr, ran=ran)


def with_tools(job: Job) -> Seen:
    """Functions of Python as tools."""
    return run(job, "--functions", FUNCTIONS, *THINKING[job.row])


def plain(job: Job) -> Seen:
    """A prompt, and a picture if there is one."""
    if not job.image:
        return run(job)
    picture = Path.home() / "picture.png"
    picture.write_bytes(base64.b64decode(job.image))
    return run(job, "-a", str(picture))


def structured(job: Job) -> Seen:
    """`--schema`."""
    seen = run(job, "--schema", "name str, population int")
    return Seen(value=json.loads(seen.text))


SCENARIOS = {
    "tool": with_tools,
    "thinking": with_tools,
    "parallel tools": with_tools,
    "several steps": with_tools,
    "structured output": structured,
    "image": plain,
    "429 first": plain,
    "empty response": plain,
}

if __name__ == "__main__":
    main({"chat": SCENARIOS, "responses": SCENARIOS, "anthropic": SCENARIOS})
