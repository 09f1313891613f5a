"""Forms: a field is found where it stands, and what readers might take in several ways is refused."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import WireError
from dragoman.wire.multipart import field_span, is_form
from tests.byte_counting import CountedBytes
from tests.step_counting import StepCounter

KIND = b"multipart/form-data; boundary=xyz"


def part(head: bytes, value: bytes = b"gpt") -> bytes:
    return b"--xyz\r\n" + head + b"\r\n\r\n" + value + b"\r\n"


FILE = part(
    b'Content-Disposition: form-data; name="file"; filename="a.wav"\r\nContent-Type: audio/wav', b"RIFF\x00\r\n--xy"
)
END = b"--xyz--\r\n"


def model(body: bytes, kind: bytes = KIND) -> bytes | None:
    span = field_span(body, kind, "model")
    return None if span is None else body[span.start : span.end]


HEADS = {
    "quoted": b'Content-Disposition: form-data; name="model"',
    "unquoted": b"Content-Disposition: form-data; name=model",
    "in small letters": b'content-disposition: form-data; name="model"',
    "in capitals": b'CONTENT-DISPOSITION: FORM-DATA; NAME="model"',
    "without blanks": b'Content-Disposition:form-data;name="model"',
    "with a type": b'Content-Type: text/plain; charset=UTF-8\r\nContent-Disposition: form-data; name="model"',
    "on two lines": b'Content-Disposition: form-data;\r\n name="model"',
    "with an end": b'Content-Disposition: form-data; name="model";',
    "in eight bits": b'Content-Disposition: form-data; name="model"\r\nContent-Transfer-Encoding: 8bit',
}


@pytest.mark.parametrize("form", HEADS)
def test_a_field_is_found_however_its_headers_are_written(form: str) -> None:
    for body in (
        part(HEADS[form]) + END,
        FILE + part(HEADS[form]) + FILE + END,
        b"preamble\r\n" + part(HEADS[form]) + END,
    ):
        assert model(body) == b"gpt"


@pytest.mark.parametrize(
    "kind",
    [
        b'multipart/form-data; boundary="xyz"',
        b"multipart/form-data;boundary=xyz; charset=utf-8",
        b"Multipart/Form-Data; Boundary=xyz",
    ],
)
def test_the_boundary_is_read_however_it_is_written(kind: bytes) -> None:
    assert is_form(kind)
    assert model(part(HEADS["quoted"]) + END, kind) == b"gpt"


@pytest.mark.parametrize(
    "body",
    [
        FILE + END,
        part(b'Content-Disposition: form-data; name="models"') + END,
        part(b'Content-Disposition: form-data; name="x"', b'name="model"\r\n\r\ngpt') + END,
        part(b'Content-Disposition: form-data; name="model"; filename="m.bin"') + END,
        part(b"X-Other: y") + END,
        b"--xyz\r\n\r\nname=model\r\n" + END,
        END,
    ],
)
def test_a_form_without_the_field_has_none(body: bytes) -> None:
    assert model(body) is None


def test_a_form_without_a_boundary_says_nothing() -> None:
    assert model(part(HEADS["quoted"]) + END, b"multipart/form-data") is None
    assert not is_form(b"application/json; x=multipart/form-data")


QUOTED = part(HEADS["quoted"])
REFUSED = {
    "said twice": QUOTED + part(HEADS["quoted"], b"other") + END,
    "said twice, far apart": QUOTED
    + part(b'Content-Disposition: form-data; name="f"', b"x" * 2_000_000)
    + QUOTED
    + END,
    "in other letters": part(b'Content-Disposition: form-data; name="Model"') + END,
    "in other letters of Unicode": part('Content-Disposition: form-data; name="mode\uff2c"'.encode())
    + QUOTED
    + QUOTED
    + END,
    "with blanks": part(b'Content-Disposition: form-data; name=" model"') + END,
    "as a list": QUOTED + part(b'Content-Disposition: form-data; name="model[]"') + END,
    "with a number": QUOTED + part(b'Content-Disposition: form-data; name="model[1]"') + END,
    "with a zero byte": QUOTED + part(b'Content-Disposition: form-data; name="model\x00x"') + END,
    "with escapes": part(b'Content-Disposition: form-data; name="mod\\el"') + END,
    "in another way of writing": part(b"Content-Disposition: form-data; name*=utf-8''model") + END,
    "in pieces": part(b"Content-Disposition: form-data; name*0=mo; name*1=del") + END,
    "two names": part(b'Content-Disposition: form-data; name="x"; name="model"') + END,
    "two dispositions": part(b'Content-Disposition: form-data; name="x"\r\n' + HEADS["quoted"]) + END,
    "as a file without a name": part(b'Content-Disposition: form-data; name="model"; filename=""') + END,
    "in a coding": part(HEADS["quoted"] + b"\r\nContent-Transfer-Encoding: base64") + END,
    "in another charset": part(HEADS["quoted"] + b"\r\nContent-Type: text/plain; charset=utf-16") + END,
    "behind a boundary with a line feed": part(b"A: b", b"\n--xyz\n" + HEADS["quoted"] + b"\n\nother") + END,
    "behind the end": part(b"A: b") + END + QUOTED + END,
    "without an end": QUOTED,
    "with line feeds alone": QUOTED.replace(b"\r\n", b"\n") + b"--xyz--\n",
    "with a broken line in its headers": part(b"A: b\n" + HEADS["quoted"]) + END,
    "with headers that never end": b"--xyz\r\nA: b\r\n" + END,
    "with endless headers": part(b"A: " + b"b" * 20_000) + END,
    "with a header nobody can read": part(b'Content-Disposition: form-data; name="model') + END,
    "without its boundary": b"hello",
    "with parts without number": part(b"A: b") * 1001 + END,
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_readers_might_take_in_several_ways_is_refused(case: str) -> None:
    with pytest.raises(WireError):
        model(REFUSED[case])


@pytest.mark.parametrize(
    "kind",
    [
        KIND + b"; boundary=abc",
        b"multipart/form-data; boundary=",
        b"multipart/form-data; boundary*=xyz",
        b"multipart/form-data; boundary=" + b"x" * 200,
    ],
)
def test_a_boundary_that_is_said_twice_or_is_none_is_refused(kind: bytes) -> None:
    with pytest.raises(WireError):
        model(QUOTED + END, kind)


@given(
    st.binary(max_size=300)
    | st.lists(st.sampled_from([b"--xyz", b"\r\n", b"--", HEADS["quoted"], b"gpt", b"\n", b"; name=model"])).map(
        b"".join
    )
)
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    with contextlib.suppress(WireError):
        model(body)


HOSTILE = {
    "names without end": b'name="model"',
    "names with lines": b'name="model"\r\nA: b\r\n',
    "line ends": b"\r\n",
    "boundaries that are none": b"\r\n--xy",
    "boundaries": b"\r\n--xyz",
    "quotes": b'"\\',
    "headers": b"A: b\r\n",
    "parts": part(b"A: b", b""),
    "parameters": b";a=b",
}


def examined(case: str, size: int) -> int:
    """Steps of the interpreter and bytes that searches and copies examine, for a form of a hostile kind."""
    unit = HOSTILE[case]
    head = part(b"Content-Disposition: form-data; name=x")
    body = CountedBytes(head + unit * (size // len(unit)))
    with StepCounter() as steps, contextlib.suppress(WireError):
        model(body)
    return steps.steps + body.counter.examined


# The first size is below the limits of a head and of the number of parts, the second above them.
@pytest.mark.parametrize("size", [7_000, 100_000])
@pytest.mark.parametrize("case", HOSTILE)
def test_item_4_a_hostile_form_takes_work_in_proportion_to_its_length(case: str, size: int) -> None:
    examined(case, size)
    once, twice = examined(case, size), examined(case, 2 * size)
    assert twice <= 2.2 * once
