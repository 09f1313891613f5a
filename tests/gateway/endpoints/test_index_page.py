"""`/`: a page for browsers, which tells strangers nothing, and JSON for everybody else."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable
from hashlib import sha256
from html.parser import HTMLParser

import pytest
from msgspec.structs import replace

from dragoman import __version__
from dragoman.config.settings import Settings
from dragoman.gateway.endpoints.index_page import prefers_html
from tests.gateway.harness import House, running, settings_for

CHROME = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8"
FIREFOX = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
KEY = "sesame-open-0123"


@pytest.mark.parametrize("accept", [CHROME, FIREFOX])
def test_browsers_get_a_page(accept: str) -> None:
    with running() as house:
        told = house.get("/", accept=accept)
        assert (told.status, told.header("content-type")) == (200, "text/html; charset=utf-8")
        silent = house.ask("HEAD", "/", b"", accept=accept)
        assert (silent.status, silent.body) == (200, b"")
        assert silent.header("content-length") == str(len(told.body))


@pytest.mark.parametrize("accept", [None, "*/*", "application/json", "text/plain, */*;q=0.1", ""])
def test_everybody_else_gets_what_a_gateway_is_known_by(accept: str | None) -> None:
    with running() as house:
        told = house.get("/", **({} if accept is None else {"accept": accept}))
    assert told.header("content-type") == "application/json"
    assert told.json() == {
        "name": "dragoman",
        "version": __version__,
        "endpoints": ["/v1/messages", "/v1/chat/completions", "/v1/responses", "/v1/models"],
    }
    assert told.header("vary") == "Accept"


@pytest.mark.parametrize(
    ("accept", "is_html"),
    [
        (None, False),
        (b"text/html", True),
        (b"TEXT/HTML ; Q=0.5", True),
        (b"text/*", True),
        (b"*/*", False),
        (b"text/html, application/json", False),
        (b"text/html;q=0.9, application/json", False),
        (b"text/html, application/json;q=0.9", True),
        # What is said of a kind itself counts, not what is said of all.
        (b"*/*, text/html;q=0.2", False),
        (b"*/*;q=0.1, application/json;q=0, text/html;q=0.001", True),
        (b"text/html;q=0, */*", False),
        (b"application/*;q=0.2, text/*;q=0.3", True),
        (b"text/html;level=1", True),
        (b"text/html;q=nonsense", False),
        (b"text/html;q=2", False),
        (b"text/html;q=1.5, */*;q=0.1", False),
        (b"\xff\xfe,,;;=,text/html", True),
        (b"a/b," * 100_000 + b"text/html", False),
    ],
)
def test_what_is_preferred_is_said_by_quality(accept: bytes | None, is_html: bool) -> None:
    assert prefers_html(accept) is is_html


class Page(HTMLParser):
    """The text of a page, its lines for a shell, and whatever it would fetch."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = ""
        self.lines: list[str] = []
        self.fetched: list[str] = []
        self.tags: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.text += " "
        self.fetched += [value or "" for name, value in attrs if name in ("src", "href", "action", "data")]
        if tag == "pre":
            self.lines.append("")

    def handle_data(self, data: str) -> None:
        if self.lasttag == "pre":
            self.lines[-1] += data.strip("\n") if data.strip() else ""
        if self.lasttag != "style":
            self.text += data


def looked_at(house: House, **headers: str) -> Page:
    told = house.get("/", accept=FIREFOX, **headers)
    assert told.status == 200
    return Page(told.body.decode())


def test_the_page_fetches_nothing_and_runs_nothing() -> None:
    with running() as house:
        told = house.get("/", accept=FIREFOX)
    text = told.body.decode()
    page = Page(text)
    # An icon that is there, so that none is asked for.
    assert page.fetched == ["data:,"]
    assert not {"script", "iframe", "img", "form", "object"} & set(page.tags)
    assert not re.search(r"\bon\w+=|javascript:|@import|url\(", text)
    style = text.partition("<style>")[2].partition("</style>")[0]
    digest = b64encode(sha256(style.encode()).digest()).decode()
    policy = told.header("content-security-policy") or ""
    assert policy.startswith("default-src 'none'; ")
    assert f"style-src 'sha256-{digest}'" in policy
    assert "frame-ancestors 'none'" in policy
    assert told.header("x-content-type-options") == "nosniff"
    assert "color-scheme:light dark" in style


def test_who_may_ask_is_told_the_state_the_providers_and_the_next_step() -> None:
    with running() as house:
        page = looked_at(house)
        address = f"http://127.0.0.1:{house.port}"
        assert __version__ in page.text
        assert "It is ready." in page.text
        assert {"chat", "messages", "responses"} <= set(page.text.split())
        asking, launching = page.lines
        assert asking.startswith(f"curl {address}/v1/m")
        assert launching == f"dragoman launch claude --gateway {address}"
        house.app.lame_duck = True
        assert "It is stopping" in looked_at(house).text


def keyed(port: int) -> Settings:
    return settings_for(port, keys=(KEY,))


def test_without_a_key_the_page_names_no_provider_key_or_path() -> None:
    with running(settings=keyed) as house:
        names = [*house.app.runtime.settings.providers, *(key.name for key in house.app.runtime.settings.keys)]
        strangers = [looked_at(house), looked_at(house, x_api_key="sesame-wrong-0123")]
        friend = looked_at(house, x_api_key=KEY)
    for page in strangers:
        assert "asks for a gateway key" in page.text
        words = set(re.findall(r"[\w.-]+", page.text))
        assert not words & {*names, "echo", "dragoman.toml"}
        assert page.lines[0].endswith("/v1/models -H 'x-api-key: '\"$DRAGOMAN_KEY\"")
    assert {"chat", "messages"} <= set(friend.text.split())
    assert KEY not in friend.text
    assert not re.search(r"/(home|root|tmp|etc|srv)/", friend.text)


def test_from_behind_a_proxy_nobody_is_told_providers_where_no_key_is_asked_for() -> None:
    with running() as house:
        page = looked_at(house, x_forwarded_for="203.0.113.9", x_forwarded_proto="https", host="localhost")
    assert "Providers" not in page.text
    assert page.lines[1] == "dragoman launch claude --gateway https://localhost"


def _named(host: str) -> Callable[[int], Settings]:
    def settings(port: int) -> Settings:
        settled = settings_for(port)
        return replace(settled, server=replace(settled.server, allowed_hosts=(host,)))

    return settings


@pytest.mark.parametrize(
    "host",
    ["x'$(reboot)", "a b", "x;y", '"><script>alert(1)</script>', "`id`", "example.org:80/x", "user@example.org"],
)
def test_a_host_that_no_shell_should_see_is_not_in_a_line_for_one(host: str) -> None:
    with running(settings=_named("*")) as house:
        told = house.get("/", accept=FIREFOX, host=host)
    text = told.body.decode()
    assert host not in text
    assert told.status == 400 or all(" http://127.0.0.1:" in line for line in map(str, Page(text).lines)), text


@pytest.mark.parametrize("host", ["gateway.example.org", "gateway.example.org:8080", "[::1]:8484", "10.0.0.3"])
def test_the_lines_go_where_the_page_was_found(host: str) -> None:
    with running(settings=_named("gateway.example.org")) as house:
        page = looked_at(house, host=host)
    assert page.lines[1].endswith(f" http://{host}")
