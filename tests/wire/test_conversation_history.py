"""Histories that continue an earlier one, against the whole history read at once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from dragoman.model.session_hints import HintQuery, Insertions, SessionHints
from dragoman.wire.conversation_history import HistoryCopies, HistoryReader, session_hints_in
from dragoman.wire.history_digest import ASSISTANT, INSTRUCTION, USER, CallOrResult, Turn, joined

QUERY = HintQuery(
    key=b"k" * 32,
    spawning={"Agent": "prompt"},
    naming={"Agent": "type"},
    insertions=Insertions(
        replies=frozenset({"noted"}),
        inserted=frozenset({"files", "switched"}),
        after_examples=frozenset({"switched"}),
        acknowledged="Ok.",
    ),
)
# Long enough to be left out where a client repeats it behind a question.
REMINDED = "\n\nNever touch the invented files of other people."
_AGENT = "01a1ed0c-ed40-7921-8a10-5208317e73e"


def asked(*pieces: str) -> Turn:
    """A message of the user."""
    return USER, joined("u", [*pieces]), "\n".join(pieces), ()


def answered(text: str) -> Turn:
    """A message of the model."""
    return ASSISTANT, joined("a", [text] if text else []), "", ()


def _called(number: int, tool: str) -> Turn:
    call: CallOrResult = f"c{number}", tool, f'{{"prompt":" do {number}","type":"explorer"}}'
    return ASSISTANT, f"acall c{number}", "", (call,)


def _given(number: int, text: str) -> Turn:
    return USER, f"uresult c{number}", "", ((f"c{number}", "", text),)


_numbers = st.integers(0, 4)
TURNS = st.lists(
    st.one_of(
        st.sampled_from("abc").map(asked),
        st.tuples(st.sampled_from("abc"), st.sampled_from("xy")).map(lambda pieces: asked(*pieces)),
        st.sampled_from(["a", "b", ""]).map(answered),
        st.sampled_from(["noted", "Ok."]).map(answered),
        st.sampled_from(["files", "switched", "a" + REMINDED, REMINDED]).map(asked),
        st.builds(_called, _numbers, st.sampled_from(["Agent", "Bash"])),
        st.builds(
            _given,
            _numbers,
            st.sampled_from(["done", "task_id: ses_1", f'{{"agent_id":"{_AGENT}1"}}', f'{{"agent_id":"{_AGENT}2"}}']),
        ),
        st.sampled_from([(INSTRUCTION, "", "late", ()), (USER, "", "", ())]),
    ),
    max_size=24,
)
INSTRUCTIONS = st.sampled_from(["You help.", "You help." + REMINDED, "You help on day 3.", "You hinder.", ""])


def _read(turns: list[Turn], instructions: str, earlier: HistoryCopies, common: int) -> tuple[SessionHints, bool]:
    """The hints of a history that continues an earlier one, and whether it could."""
    reader = HistoryReader()
    reader.resume(earlier, common)
    hints = session_hints_in(turns[reader.count :], QUERY, instructions=instructions, tools=(1, ()), reader=reader)
    return hints, not reader.is_broken


@given(TURNS, TURNS, st.integers(0, 3), INSTRUCTIONS, INSTRUCTIONS)
def test_a_history_that_continues_another_gives_the_same_hints(
    former: list[Turn], new: list[Turn], changed: int, before: str, after: str
) -> None:
    first, last = HistoryReader(), HistoryReader()
    assert session_hints_in(former, QUERY, instructions=before, reader=first) == session_hints_in(
        former, QUERY, instructions=before
    )
    common = max(len(former) - changed, 0)
    turns = former[:common] + new
    whole = session_hints_in(turns, QUERY, instructions=after, tools=(1, ()))
    hints, could = _read(turns, after, first.copies, common)
    if could:
        assert hints == whole
    # A third request continues the copies that the second one made.
    last.resume(first.copies, common)
    session_hints_in(turns[last.count :], QUERY, instructions=after, reader=last)
    if not last.is_broken:
        hints, could = _read([*turns, asked("more")], after, last.copies, len(turns))
        if could:
            assert hints == session_hints_in([*turns, asked("more")], QUERY, instructions=after, tools=(1, ()))


def test_a_growing_history_is_continued_after_each_message() -> None:
    turns: list[Turn] = [asked("go")]
    for number in range(30):
        turns += [_called(number, "Bash"), _given(number, "done")]
    earlier = HistoryCopies()
    for length in range(1, len(turns) + 1):
        reader = HistoryReader()
        reader.resume(earlier, length - 1)
        session_hints_in(turns[reader.count : length], QUERY, reader=reader)
        assert (reader.is_broken, reader.count) == (False, length)
        assert earlier.latest(length - 1)[0] == length - 1
        earlier = reader.copies
    assert len(earlier.copies) == 8
    # Texts that were digested are gone.
    assert earlier.size < 20_000


def test_other_instructions_or_a_message_taken_back_need_the_whole_history() -> None:
    turns = [asked("go"), answered("a"), asked("b"), answered("c"), asked("d")]
    reader = HistoryReader()
    session_hints_in(turns, QUERY, instructions="You help.", reader=reader)
    assert _read([*turns, answered("e")], "You hinder.", reader.copies, 5)[1] is False
    assert _read([*turns, *[answered("noted")] * 2], "You help.", reader.copies, 5)[1] is True
    assert _read([*turns, *[answered("noted")] * 3], "You help.", reader.copies, 5)[1] is False


def test_instructions_of_the_earlier_request_are_not_decoded_again() -> None:
    decoded: list[bytes] = []

    def decode(written: Raw) -> str:
        decoded.append(bytes(written))
        return bytes(written).decode().strip('"').upper()

    earlier = HistoryCopies()
    for written in (b'"abc"', b'"abc"', b'"abcd"', b'"ab"', b"null", b'"abc"'):
        reader = HistoryReader()
        reader.resume(earlier, len(earlier.copies))
        assert reader.text_of(Raw(written), decode) == written.decode().strip('"').upper()
        reader.read([asked("go")], QUERY, "")
        earlier = reader.copies
    # The second time they are those of the first.
    assert decoded == [b'"abc"', b'"abcd"', b'"ab"', b"null", b'"abc"']


def test_instructions_count_as_memory() -> None:
    sizes: list[int] = []
    for text in ("", "a" * 1000, "\N{SNOWMAN}" * 1000):
        reader = HistoryReader()
        reader.text_of(Raw(text.encode()), lambda written: bytes(written).decode())
        reader.read([asked("go")], QUERY, "")
        sizes.append(reader.copies.size)
    assert (sizes[1] - sizes[0], sizes[2] - sizes[0]) == (2000, 3000 + 4000)
