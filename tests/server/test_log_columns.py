"""The log as a person sees it: a real gateway in a real terminal of 80 and of 140 columns, in colour and without."""

from __future__ import annotations

import re

import pytest

from tests.gateway.harness import CHAT, MESSAGES, PATHS, whole
from tests.gateway.says import error_body, question, tells
from tests.screen import COLOUR, as_seen, fits
from tests.server.process import Script, Served
from tests.server.terminal import TerminalProcess, serving_in_terminal

KEY = "dgm_key-of-somebody-at-a-terminal-01"
KEYS = '[keys.laptop]\nkey = "$LAPTOP_KEY"\n'
NAMED = {"LAPTOP_KEY": KEY}

AT_80 = """\
HH:MM:SS 200 /messages   TIME        11+7 chat/served  -top_k  key laptop
HH:MM:SS 200 /chat/com…  TIME        11+7 routed → chat/served  key laptop
HH:MM:SS 429 /chat/com…  TIME           - chat/limited  key laptop
             rate_limited: chat answered 429
HH:MM:SS 404 /messages   TIME           - chat/unheard-of  key laptop
             chat does not have the model `unheard-of`
HH:MM:SS 404 /nowhere    TIME           -
             there is nothing at this path; what there is: /v1/messages,
             /v1/chat/completions, /v1/responses, /v1/models
HH:MM:SS 401 /messages   TIME           -  this gateway key is not known here
"""
AT_140 = """\
HH:MM:SS 200 /messages          TIME                          11+7 chat/served  -top_k  key laptop              ID
HH:MM:SS 200 /chat/completions  TIME                          11+7 routed → chat/served  key laptop             ID
HH:MM:SS 429 /chat/completions  TIME                             - chat/limited  rate_limited: chat answered 429  key laptop
HH:MM:SS 404 /messages          TIME                             - chat/unheard-of  chat does not have the model `unheard-of`  key laptop
HH:MM:SS 404 /nowhere           TIME                             -                                              ID
             there is nothing at this path; what there is: /v1/messages, /v1/chat/completions, /v1/responses, /v1/models
HH:MM:SS 401 /messages          TIME                             -  this gateway key is not known here          ID
"""  # noqa: E501 A screen of 140 columns.


def _script() -> Script:
    script = Script()
    script.replies = {
        "served": tells(CHAT),
        "limited": whole(error_body(CHAT, "rate_limit_error", "too many"), 429),
        "unheard-of": whole(error_body(CHAT, "invalid_request_error", "no such model", code="model_not_found"), 404),
    }
    return script


def _ask_everything(house: Served) -> None:
    """What a person may have done in the first minutes."""
    probed = [house.ask(method, path, b"").status for method in ("HEAD", "GET") for path in ("/api/hello", "/")]
    assert probed == [200] * 4
    asked = {**question(MESSAGES, CHAT), "top_k": 5}
    assert house.post(PATHS[MESSAGES], asked, x_api_key=KEY).status == 200
    assert house.post(PATHS[CHAT], question(CHAT, CHAT, model="routed"), x_api_key=KEY).status == 200
    assert house.post(PATHS[CHAT], question(CHAT, CHAT, model="chat/limited"), x_api_key=KEY).status == 429
    assert house.post(PATHS[MESSAGES], question(MESSAGES, CHAT, model="chat/unheard-of"), x_api_key=KEY).status == 404
    assert house.get("/nowhere", x_api_key=KEY).status == 404
    assert house.post(PATHS[MESSAGES], asked, x_api_key="dgm_another").status == 401


def _screen(terminal: TerminalProcess) -> list[str]:
    """The lines of the log, as they came."""
    terminal.log.wait("not known here")
    lines = terminal.log.all()
    first = next(at for at, line in enumerate(lines) if re.match(r"\d\d:\d\d:\d\d ", as_seen(line)))
    return lines[first:]


def _steady(line: str) -> str:
    """A line as it is seen, without what is another each time."""
    line = re.sub(r"^\d\d:\d\d:\d\d", "HH:MM:SS", as_seen(line))
    line = re.sub(r" +\d+(\.\d)?m?s(?= )", lambda found: "TIME".rjust(len(found[0])), line, count=1)
    return re.sub(r"req_\w{24}", "ID", line)


@pytest.mark.parametrize("columns", [80, 140])
def test_the_lines_fit_and_are_the_same_without_colour(columns: int) -> None:
    seen = []
    for environment in ({}, {"NO_COLOR": "1"}):
        with serving_in_terminal(_script(), KEYS, environment=NAMED | environment, columns=columns) as (
            house,
            terminal,
        ):
            _ask_everything(house)
            lines = _screen(terminal)
        assert fits(lines, columns)
        assert bool(COLOUR.search("".join(lines))) is not bool(environment)
        seen.append([_steady(line) for line in lines])
    assert seen[0] == seen[1]
    assert seen[0] == (AT_80 if columns == 80 else AT_140).splitlines()


@pytest.mark.parametrize(("choice", "terminal"), [("never", "xterm"), ("always", "dumb")])
def test_pitfall_615_the_log_has_colours_as_the_command_line_says(choice: str, terminal: str) -> None:
    with serving_in_terminal(_script(), arguments=["--color", choice], environment={"TERM": terminal}) as (house, seen):
        assert house.post(PATHS[CHAT], question(CHAT, CHAT)).status == 200
        assert bool(COLOUR.search(seen.log.wait("11+7"))) is (choice == "always")


def test_a_window_that_is_made_wider_has_wider_lines() -> None:
    with serving_in_terminal(_script()) as (house, terminal):
        assert house.post(PATHS[CHAT], question(CHAT, CHAT)).status == 200
        assert fits([terminal.log.wait("11+7")], 80)
        terminal.resize(140)
        assert house.post(PATHS[CHAT], question(CHAT, CHAT)).status == 200
        assert re.search(r" req_\w{24}$", as_seen(terminal.log.wait("11+7", 2)))


def test_pitfall_619_a_terminal_that_knows_no_arrows_gets_none() -> None:
    with serving_in_terminal(_script(), environment={"TERM": "dumb"}) as (house, terminal):
        assert house.post(PATHS[CHAT], question(CHAT, CHAT, model="routed")).status == 200
        line = terminal.log.wait("11+7")
        assert "routed -> chat/served" in line
        assert line.isascii() and line.isprintable()
