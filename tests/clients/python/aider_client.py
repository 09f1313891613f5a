"""The `aider` command, run in this process on files of a new directory, over Chat Completions and over Messages."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import os
import tempfile
from pathlib import Path

from program import KEY, URL, Job, Seen, main

FILE = "note.txt"
BEFORE = "old words\n"
# Nothing but the question itself goes over the network.
QUIET = (
    "--yes-always",
    "--no-git",
    "--no-check-update",
    "--no-analytics",
    "--no-show-model-warnings",
    "--no-show-release-notes",
    "--no-pretty",
    "--no-auto-lint",
    "--no-detect-urls",
    "--no-check-model-accepts-settings",
)


def configure() -> None:
    """What a user sets once, and what would be downloaded otherwise."""
    os.environ.update(
        OPENAI_API_BASE=f"{URL}/v1",
        OPENAI_API_KEY=KEY,
        ANTHROPIC_API_BASE=URL,
        ANTHROPIC_API_KEY=KEY,
        LITELLM_LOCAL_MODEL_COST_MAP="True",
    )
    prices = Path.home() / ".aider/caches/model_prices_and_context_window.json"
    prices.parent.mkdir(parents=True, exist_ok=True)
    prices.write_text("{}")


def run(job: Job, *words: str) -> Seen:
    """One run of the command in a directory that holds one file."""
    configure()
    # It reads its environment when it is loaded.
    from aider.main import main as aider

    model = f"{job.row}/{job.model}"
    with (
        tempfile.TemporaryDirectory() as name,
        contextlib.chdir(name),
        contextlib.redirect_stdout(io.StringIO()) as out,
    ):
        Path(FILE).write_text(BEFORE)
        Path("prompt").write_text(job.prompt)
        Path("models.json").write_text(json.dumps({model: {"supports_vision": True, "max_input_tokens": 100000}}))
        files = [FILE]
        if job.image:
            Path("picture.png").write_bytes(base64.b64decode(job.image))
            files.append("picture.png")
        # Models that reason take no temperature; of those it knows by name it is aware of that.
        Path("settings.yml").write_text(json.dumps([{"name": model, "use_temperature": False, "streaming": True}]))
        given = ["--model", model, "--message-file", "prompt"]
        given += ["--model-metadata-file", "models.json", "--model-settings-file", "settings.yml"]
        aider([*given, *QUIET, *words, *files])
        return Seen(text=out.getvalue(), value=Path(FILE).read_text())


def whole(job: Job) -> Seen:
    """The model writes the whole file."""
    return run(job, "--edit-format", "whole")


def thinking(job: Job) -> Seen:
    """The same with reasoning on."""
    return run(job, "--edit-format", "whole", "--reasoning-effort", "high")


def diff(job: Job) -> Seen:
    """The model writes what to search for and what to replace; a search that fails is told to it."""
    return run(job, "--edit-format", "diff")


SCENARIOS = {
    "edit a file": whole,
    "thinking": thinking,
    "several steps": diff,
    "image": whole,
    "429 first": whole,
    "empty response": whole,
}

if __name__ == "__main__":
    main({"openai": SCENARIOS, "anthropic": SCENARIOS})
