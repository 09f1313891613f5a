"""The source uses no more words of the old private vocabulary than before (`plain_words.py`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.house.plain_words import allowed, counted, differences, main, rendered, words_of


def test_no_package_has_more_of_the_old_words() -> None:
    assert not differences(counted(), allowed()), "see the head of tests/house/plain_words.py"


def test_the_file_is_as_the_tool_writes_it() -> None:
    path = Path(__file__).with_name("plain_words.toml")
    assert path.read_text(encoding="utf-8") == rendered(allowed())


SNIPPETS: dict[str, tuple[str, dict[str, int], dict[str, int]]] = {
    "a name": ("told = 1", {"told": 1}, {}),
    "parts of names": ("_told_apart(x.is_told, untold)", {"told": 2}, {}),
    "a class": ("class TargetStanding: pass", {"standing": 1}, {}),
    "two words in one part": ("from x import made_up_ids", {"made_up": 1}, {}),
    "a string is prose": ('x = "told, and nobody came to it"', {}, {"nobody": 1, "came to": 1}),
    "a docstring over lines": ('"""What of\n    that is told."""', {}, {"what of that": 1, "is told": 1}),
    "a comment over lines": ("# Those\n# that are left\nx = 1  # nobody", {}, {"those that": 1, "nobody": 1}),
    "a string with an escaped quote": (r'x = "\" told"; told = 1', {"told": 1}, {}),
    "a string with a comment's sign": ('x = "# told"; said = 1', {"said": 1}, {}),
    "other words": ("untold = saidan = 1  # everybody", {}, {}),
}


@pytest.mark.parametrize("case", SNIPPETS)
def test_words_of_a_module(case: str) -> None:
    source, names, prose = SNIPPETS[case]
    assert words_of(source) == (names, prose)


class House:
    """Sources and counts of their own."""

    def __init__(self, directory: Path) -> None:
        self.sources, self.counts = directory / "src", directory / "counts.toml"

    def write(self, module: str, text: str) -> None:
        path = self.sources / module
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def differ(self) -> list[str]:
        return differences(counted(self.sources), allowed(self.counts))


@pytest.fixture
def house(tmp_path: Path) -> House:
    house = House(tmp_path)
    house.write("gateway/app.py", "told = told + 1")
    house.write("library.py", "# nobody\n")
    house.counts.write_text(rendered(counted(house.sources)), encoding="utf-8")
    return house


def test_a_higher_count_is_refused(house: House) -> None:
    house.write("gateway/new.py", "told = 1")
    assert house.differ() == ['gateway, identifiers: "told" 3 times, allowed 2: use the standard term']
    assert main(house.sources, house.counts) == 1
    assert allowed(house.counts)["identifiers"] == {"gateway": {"told": 2}}


def test_a_lower_count_has_to_be_written_and_does_not_come_back(house: House) -> None:
    house.write("gateway/app.py", "told = 1")
    house.write("library.py", "")
    assert house.differ() == [
        'gateway, identifiers: "told" 1 times, no longer 2: write the lower count',
        'dragoman, prose: "nobody" 0 times, no longer 1: write the lower count',
    ]
    assert main(house.sources, house.counts) == 0
    assert not house.differ()
    assert allowed(house.counts) == {"identifiers": {"gateway": {"told": 1}}}
    house.write("gateway/app.py", "told = told + 1")
    assert main(house.sources, house.counts) == 1


def test_words_may_move_with_their_module_to_another_package(house: House) -> None:
    house.write("gateway/app.py", "")
    house.write("records/app.py", "told = told + 1")
    assert len(house.differ()) == 2
    assert main(house.sources, house.counts) == 0
    assert not house.differ()
