"""What docs/configuration.md says beside its tables, which are made of the code."""

from __future__ import annotations

import json
from pathlib import Path

from dragoman.providers.catalogue import catalogue
from tests.gateway.harness import CHAT, MESSAGES, running
from tests.gateway.says import tells

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "configuration.md").read_text(encoding="utf-8")
HEADERS = (DOCS / "api.md").read_text(encoding="utf-8")


def test_names_that_work_by_themselves_are_those_of_the_catalogue() -> None:
    known = catalogue()
    for name, pattern in (("anthropic", "claude-*"), ("openai", "gpt-5*"), ("openai", "o3*"), ("google", "gemini-*")):
        assert f"`{pattern}`" in PAGE
        assert pattern in known[name].serves


def test_headers_do_what_the_page_says() -> None:
    question = {"model": "chat/served", "max_tokens": 9, "top_k": 3, "messages": [{"role": "user", "content": "Hi"}]}
    with running([tells(CHAT)] * 2) as house:
        told = house.post("/v1/messages", question, x_dragoman_report="full")
        assert told.header("x-dragoman-route") == "chat/served; protocol=openai-chat"
        assert str(told.header("x-dragoman-losses")).startswith("dropped:")
        assert json.loads(told.body)["dragoman"]["losses"]
        assert told.header("request-id")
        assert house.post("/v1/messages", question, x_dragoman_strict="1").status == 400
        assert len(house.provider.received) == 1
        assert house.post("/v1/files", b"").status == 404
        house.post("/v1/files", b"", x_dragoman_provider="chat")
        assert house.provider.received[1].target == "/v1/files"
    for name in ("provider: NAME", "strict: 1", "report: full", "route", "losses"):
        assert f"`x-dragoman-{name}`" in HEADERS
    assert MESSAGES not in PAGE.partition("## `[server]`")[0]
