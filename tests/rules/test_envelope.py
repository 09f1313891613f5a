import zlib
from base64 import urlsafe_b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.model.jsonvalue import JsonObject, Number
from dragoman.rules.envelope import KINDS, ORIGINS, Envelope, is_envelope, seal, unseal
from tests.rules.vectors import objects, text

TEXT = st.text(alphabet=st.characters(exclude_categories=["Cs"]))
DATA = st.dictionaries(
    TEXT, st.none() | st.booleans() | st.integers() | TEXT | st.text(alphabet="ab", min_size=1500), max_size=4
)


def golden(row: JsonObject) -> Envelope:
    content = row["object"]
    assert isinstance(content, dict)
    data = content["d"]
    assert isinstance(data, dict)
    origin, model, upstream, kind = (text(content[name]) for name in "omuk")
    return Envelope(origin=origin, model=model, vendor=upstream, kind=kind, data=data)


def packed(content: bytes, prefix: str = "rsv1.") -> str:
    return prefix + urlsafe_b64encode(content).decode().rstrip("=")


def deflated(content: bytes) -> bytes:
    deflater = zlib.compressobj(9, zlib.DEFLATED, -15)
    return deflater.compress(content) + deflater.flush()


@pytest.mark.parametrize("row", objects("envelopes"), ids=["thinking", "item"])
def test_an_envelope_has_its_golden_text(row: JsonObject) -> None:
    assert seal(golden(row)) == row["string"]
    assert unseal(text(row["string"])) == golden(row)


@given(st.sampled_from(sorted(ORIGINS)), TEXT, TEXT, st.sampled_from(sorted(KINDS)), DATA)
def test_every_envelope_returns(origin: str, model: str, upstream: str, kind: str, data: JsonObject) -> None:
    envelope = Envelope(origin=origin, model=model, vendor=upstream, kind=kind, data=data)
    sealed = seal(envelope)
    assert is_envelope(sealed)
    assert unseal(sealed) == envelope
    assert seal(envelope) == sealed


def sized(size: int) -> Envelope:
    empty = '{"o":"a","m":"","u":"","k":"thinking","d":{"t":""}}'
    return Envelope(origin="a", model="", vendor="", kind="thinking", data={"t": "x" * (size - len(empty))})


def test_only_more_than_a_kibibyte_is_compressed() -> None:
    assert seal(sized(1024)).startswith("rsv1.")
    assert seal(sized(1025)).startswith("rsv1z.")
    assert unseal(seal(sized(1025))) == sized(1025)


def test_numbers_keep_their_spelling() -> None:
    envelope = Envelope(origin="c", model="m", vendor="u", kind="text", data={"n": Number("1.50")})
    returned = unseal(seal(envelope))
    assert returned is not None
    assert returned.data["n"] == Number("1.50")


def test_an_origin_or_kind_that_does_not_exist_is_not_sealed() -> None:
    with pytest.raises(ValueError, match="no envelope"):
        seal(Envelope(origin="x", model="m", vendor="u", kind="text", data={}))


GOOD = b'{"o":"a","m":"m","u":"u","k":"text","d":{}}'


@pytest.mark.parametrize(
    "sealed",
    [
        "",
        "rsv1.",
        "rsv1z.",
        "rsv2." + packed(GOOD)[5:],
        "EosnCkYICxIM",
        packed(GOOD) + "=",
        packed(GOOD) + "\n",
        packed(GOOD)[:-1] + "!",
        packed(GOOD).replace("J", "+", 1),
        "rsv1.A",
        "rsv1.é",
        packed(b"[]"),
        packed(b"not json"),
        packed(b"\xff\xfe"),
        packed(GOOD.replace(b'"a"', b'"x"')),
        packed(GOOD.replace(b'"text"', b'"other"')),
        packed(GOOD.replace(b"{}", b"[]")),
        packed(GOOD.replace(b'"m":"m"', b'"m":1')),
        packed(GOOD.replace(b',"u":"u"', b"")),
        packed(GOOD[:-1] + b',"x":1}'),
        packed(b"[" * 100_000),
        packed(GOOD, "rsv1z."),
        packed(deflated(GOOD)[:-3], "rsv1z."),
        packed(deflated(GOOD) + b"more", "rsv1z."),
        packed(zlib.compress(GOOD), "rsv1z."),
    ],
)
def test_anything_else_is_no_envelope(sealed: str) -> None:
    assert unseal(sealed) is None


def test_a_good_envelope_by_hand_is_read() -> None:
    assert unseal(packed(GOOD)) is not None
    assert unseal(packed(deflated(GOOD), "rsv1z.")) is not None


def test_a_bomb_is_refused() -> None:
    bomb = GOOD.replace(b"{}", b'{"t":"' + b"0" * (64 * 1024 * 1024) + b'"}')
    assert unseal(packed(deflated(bomb), "rsv1z.")) is None


def test_what_grows_too_much_is_refused_and_never_written() -> None:
    bomb = GOOD.replace(b"{}", b'{"a":[' + b"[]," * 200_000 + b"0]}")
    assert unseal(packed(deflated(bomb), "rsv1z.")) is None
    monotonous = sized(500_000)
    assert seal(monotonous).startswith("rsv1.")
    assert unseal(seal(monotonous)) == monotonous


@given(st.text(max_size=60), st.sampled_from(["", "rsv1.", "rsv1z."]))
def test_no_text_raises(tail: str, prefix: str) -> None:
    assert unseal(prefix + tail) is None
