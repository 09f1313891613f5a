"""No module outside the rooms names a protocol, and no room another, more often than before."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.house.protocol_names import OUTSIDE, ROOMS, allowed, counted, differences, main, rendered, rooms_named

A, C, R = "anthropic_messages", "openai_chat", "openai_responses"


def test_protocols_are_named_at_no_new_place() -> None:
    assert not differences(counted(), allowed()), "see the head of tests/house/protocol_names.py"


def test_the_file_is_as_the_tool_writes_it() -> None:
    path = Path(__file__).with_name("protocol_names.toml")
    assert path.read_text(encoding="utf-8") == rendered(allowed())


SNIPPETS: dict[str, tuple[str, dict[str, int]]] = {
    "a string": ('if protocol == "openai-chat": pass', {C: 1}),
    "a string with more in it": ('help = "openai-chat or openai-responses"', {C: 1, R: 1}),
    "a string with values in it": ('say(f"openai-chat: {x}")', {C: 1}),
    "a key": ('t = {"openai-chat": 1, "anthropic-messages": 2}', {C: 1, A: 1}),
    "a case": ('match p:\n    case "openai-chat": pass', {C: 1}),
    "uses of an imported word": ("from x import CHAT\nf(CHAT, CHAT)", {C: 2}),
    "an import that is handed on": ("from x import CHAT", {C: 1}),
    "another name for a word": ("from x import CHAT as spoken\nf(spoken)", {C: 1}),
    "a word of a module": ("f(paths.RESPONSES)", {R: 1}),
    "what a room has": ("from dragoman.protocols.openai_chat.shapes import PDF\nf(PDF)", {C: 1}),
    "what a room calls another": ("from dragoman.protocols.openai_chat.shapes import ANTHROPIC\nf(ANTHROPIC)", {A: 1}),
    "a room": ("from dragoman.protocols import openai_chat\nf(openai_chat.CODEC)", {C: 1}),
    "a room by another name": ("import dragoman.protocols.openai_chat as c\nf(c.CODEC, c.NAME)", {C: 2}),
    "a room by its whole name": (
        "import dragoman.protocols.openai_chat\nf(dragoman.protocols.openai_chat.NAME)",
        {C: 1},
    ),
    "in a function": ("def f():\n    from dragoman.protocols.openai_chat import NAME\n    return NAME", {C: 1}),
    "a name of its own": ('_C = "openai-chat"\nf(_C)', {C: 2}),
    "names of its own": ('_A, _C = "anthropic-messages", "openai-chat"\nf(_C)', {A: 1, C: 2}),
    "a name of a name": ("from x import CHAT\n_OURS: str = CHAT\nf(_OURS)", {C: 2}),
    "a docstring": ('"""Of openai-chat."""\ndef f():\n    """openai-chat"""', {}),
    "a comment": ("# openai-chat\nx = 1", {}),
    "other words": ('from dragoman.protocols.registry import codec_of\ncodec_of(p)\nx = "openai"', {}),
}


@pytest.mark.parametrize("case", SNIPPETS)
def test_what_names_a_protocol(case: str) -> None:
    source, found = SNIPPETS[case]
    assert rooms_named(source) == found


# The tool


class House:
    """Sources and counts of their own."""

    def __init__(self, directory: Path) -> None:
        self.sources = directory / "src"
        self.counts = directory / "counts.toml"

    def write(self, **modules: str) -> None:
        for name, text in modules.items():
            path = self.sources / f"{name.replace('__', '/')}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    def remove(self, name: str) -> None:
        (self.sources / f"{name.replace('__', '/')}.py").unlink()

    def run(self) -> int:
        return main(self.sources, self.counts)

    def differ(self) -> list[str]:
        return differences(counted(self.sources), allowed(self.counts))


@pytest.fixture
def house(tmp_path: Path) -> House:
    house = House(tmp_path)
    house.write(
        gateway__app="from x import CHAT\nf(CHAT, CHAT)",
        cli__serve='p = "openai-chat"',
        protocols__registry='p = "openai-chat"',
        protocols__openai_chat__parts='p = "openai-chat", "openai-responses"',
    )
    house.counts.write_text(rendered(counted(house.sources)), encoding="utf-8")
    return house


def test_the_lists_are_of_modules_outside_and_of_rooms_that_name_others(house: House) -> None:
    assert allowed(house.counts) == {
        OUTSIDE: {"cli/serve.py": 1, "gateway/app.py": 2},
        ROOMS: {"protocols/openai_chat/parts.py": 1},
    }
    assert not house.differ()


def test_a_new_site_is_refused_by_the_test_and_by_the_tool(house: House, capsys: pytest.CaptureFixture[str]) -> None:
    before = house.counts.read_text(encoding="utf-8")
    house.write(gateway__app="from x import CHAT\nf(CHAT, CHAT, CHAT)", gateway__new="f(paths.CHAT)")
    lines = [
        "gateway/app.py: 3 sites name a protocol, allowed are 2: ask the codec instead",
        "gateway/new.py: 1 sites name a protocol, allowed are 0: ask the codec instead",
    ]
    assert house.differ() == lines
    assert house.run() == 1
    refused = "refused: 5 sites would name a protocol instead of 3 in the list 'outside'"
    assert capsys.readouterr().err.splitlines() == [refused, *lines]
    assert house.counts.read_text(encoding="utf-8") == before


def test_fewer_sites_are_to_be_written_down_and_do_not_come_back(house: House) -> None:
    house.write(gateway__app="from x import CHAT\nf(CHAT)", cli__serve="pass")
    assert house.differ() == [
        "cli/serve.py: 0 sites name a protocol, no longer 1: lower the number in the file",
        "gateway/app.py: 1 sites name a protocol, no longer 2: lower the number in the file",
    ]
    assert house.run() == 0
    assert allowed(house.counts)[OUTSIDE] == {"gateway/app.py": 1}
    house.write(cli__serve='p = "openai-chat"')
    assert house.run() == 1


def test_modules_that_are_moved_and_divided_keep_their_sites(house: House) -> None:
    house.remove("gateway__app")
    house.write(
        gateway__endpoints__one="from x import CHAT\nf(CHAT)", gateway__endpoints__two="from x import CHAT\nf(CHAT)"
    )
    assert len(house.differ()) == 3
    assert house.run() == 0
    assert allowed(house.counts)[OUTSIDE] == {
        "cli/serve.py": 1,
        "gateway/endpoints/one.py": 1,
        "gateway/endpoints/two.py": 1,
    }
    assert not house.differ()


def test_what_leaves_one_list_makes_no_room_in_the_other(house: House) -> None:
    house.write(cli__serve="pass", protocols__openai_chat__tools='p = "anthropic-messages"')
    assert house.run() == 1


def test_the_tool_says_when_there_is_nothing_to_do(house: House, capsys: pytest.CaptureFixture[str]) -> None:
    assert house.run() == 0
    assert capsys.readouterr().out == "nothing has changed\n"
