"""Trace context is read as W3C says, to the letter; ids follow from the exchange, and shares are the SDK's own."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry import trace
from opentelemetry.sdk.trace.sampling import Decision, TraceIdRatioBased
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from dragoman.telemetry.trace_context import (
    is_sampled,
    parent_of_call,
    read_parent,
    read_state,
    read_trace_context,
    span_id_of,
    trace_id_of,
)

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"
EXCHANGE = "req_0123456789"

# https://www.w3.org/TR/trace-context-2/#traceparent-header-field-values
PARENTS = {
    "the specification's own": (PARENT, PARENT),
    "not sampled": (f"00-{TRACE}-{SPAN}-00", f"00-{TRACE}-{SPAN}-00"),
    "with a random id": (f"00-{TRACE}-{SPAN}-03", f"00-{TRACE}-{SPAN}-03"),
    "reserved flags are handed on as zero": (f"00-{TRACE}-{SPAN}-ff", f"00-{TRACE}-{SPAN}-03"),
    "a later version is said in ours": (f"cc-{TRACE}-{SPAN}-01", PARENT),
    "a later version that says more": (f"cc-{TRACE}-{SPAN}-01-what-the-future-will-be-like", PARENT),
    "a later version that goes on without a dash": (f"cc-{TRACE}-{SPAN}-01.what", ""),
    "a later version that is endless": (f"cc-{TRACE}-{SPAN}-01-{'x' * 300}", ""),
    "more in this version": (f"{PARENT}-what", ""),
    "a dash at the end": (f"{PARENT}-", ""),
    "the version that is forbidden": (f"ff-{TRACE}-{SPAN}-01", ""),
    "no trace": (f"00-{'0' * 32}-{SPAN}-01", ""),
    "no span": (f"00-{TRACE}-{'0' * 16}-01", ""),
    "capital letters": (PARENT.upper(), ""),
    "capital flags": (f"00-{TRACE}-{SPAN}-0A", ""),
    "one digit less": (f"00-{TRACE[1:]}-{SPAN}-01", ""),
    "one digit more": (f"00-{TRACE}0-{SPAN}-01", ""),
    "no flags": (f"00-{TRACE}-{SPAN}", ""),
    "a line of its own behind it": (f"{PARENT}\r\nx: y", ""),
    "a line of its own in the future": (f"cc-{TRACE}-{SPAN}-01-\r\nx: y", ""),
    "a letter that is no digit": (f"00-{TRACE[1:]}g-{SPAN}-01", ""),
    "digits of another script": (f"00-{TRACE[1:]}٣-{SPAN}-01", ""),
    "blanks around it": (f" {PARENT} ", ""),
    "nothing": ("", ""),
}


@pytest.mark.parametrize("case", PARENTS)
def test_a_parent_is_what_the_specification_says(case: str) -> None:
    value, read = PARENTS[case]
    assert read_parent(value.encode()) == read


@given(
    st.text("0123456789abcf-", max_size=60)
    | st.from_regex(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-0[01]", fullmatch=True)
)
def test_what_is_taken_is_taken_by_the_official_propagator_too(value: str) -> None:
    read = read_parent(value.encode())
    found = trace.get_current_span(TraceContextTextMapPropagator().extract({"traceparent": value})).get_span_context()
    assert bool(read) <= found.is_valid
    if read:
        assert (f"{found.trace_id:032x}", f"{found.span_id:016x}") == (read[3:35], read[36:52])


# https://www.w3.org/TR/trace-context-2/#tracestate-header-field-values
STATES = {
    "one member": ("congo=t61rcWkgMzE", "congo=t61rcWkgMzE"),
    "two, and their order": ("rojo=00f067aa0ba902b7,congo=t61rcWkgMzE", "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"),
    "blanks around them, and empty ones": (" a=1 ,\t,b=2\t,", "a=1,b=2"),
    "a tenant": ("fw529a3039@dt=FfffffffFfff", "fw529a3039@dt=FfffffffFfff"),
    "a digit first": ("0v=1", "0v=1"),
    "blanks within a value": ("a= b c", "a= b c"),
    "the longest": (f"{'k' * 256}={'v' * 255}", f"{'k' * 256}={'v' * 255}"),
    "no value": ("a=", ""),
    "no key": ("=1", ""),
    "no sign": ("a", ""),
    "two signs": ("a=b=c", ""),
    "a capital key": ("A=1", ""),
    "a key that is too long": (f"{'k' * 257}=1", ""),
    "a value that is too long": (f"k={'v' * 257}", ""),
    "the same key twice": ("a=1,b=2,a=3", ""),
    "32 members": (",".join(f"k{n}=1" for n in range(32)), ",".join(f"k{n}=1" for n in range(32))),
    "33 members": (",".join(f"k{n}=1" for n in range(33)), ""),
    "a line of its own": ("a=1\r\nx: y", ""),
    "a letter beyond ASCII": ("a=é", ""),
    "more than anybody may send": (f"a={'1' * 9000}", ""),
    "too much of it: large ones go first": (f"a=1,b={'2' * 250},c={'3' * 250},d=4,e=5", f"a=1,b={'2' * 250},d=4,e=5"),
    "too much of it: then the last ones": (
        ",".join(f"k{n}={'v' * 100}" for n in range(6)),
        ",".join(f"k{n}={'v' * 100}" for n in range(4)),
    ),
}


@pytest.mark.parametrize("case", STATES)
def test_a_state_is_what_the_specification_says(case: str) -> None:
    value, read = STATES[case]
    assert read_state(value.encode()) == read


@given(
    st.lists(
        st.tuples(st.from_regex(r"[a-z][a-z0-9]{0,9}", fullmatch=True), st.integers(1, 250)), unique_by=lambda m: m[0]
    )
)
def test_a_state_is_never_longer_than_is_handed_on_and_loses_whole_members(members: list[tuple[str, int]]) -> None:
    written = [f"{key}={'v' * size}" for key, size in members]
    read = read_state(",".join(written).encode())
    kept = read.split(",") if read else []
    assert len(read) <= 512
    assert [member for member in written if member in kept] == kept


def test_a_request_says_which_trace_it_belongs_to() -> None:
    parent, state = (b"traceparent", PARENT.encode()), (b"tracestate", b"a=1")
    assert read_trace_context([(b"accept", b"*/*"), parent, state]) == (PARENT, "a=1")
    assert read_trace_context([parent, state, (b"tracestate", b"b=2")]) == (PARENT, "a=1,b=2")
    assert read_trace_context([parent, (b"tracestate", b"A")]) == (PARENT, "")
    # A state without a trace is nobody's, and of two traces nobody knows which one is meant.
    assert read_trace_context([state]) == ("", "")
    assert read_trace_context([parent, parent, state]) == ("", "")
    assert read_trace_context([]) == ("", "")


def test_ids_follow_from_the_exchange_and_the_call() -> None:
    own = trace_id_of(EXCHANGE, "")
    ids = {span_id_of(EXCHANGE), *(span_id_of(EXCHANGE, call) for call in range(10)), span_id_of("req_other", 0)}
    assert len(ids) == 12
    assert all(len(each) == 16 and int(each, 16) for each in ids)
    assert len(own) == 32
    assert own == trace_id_of(EXCHANGE, "")
    assert trace_id_of(EXCHANGE, PARENT) == TRACE


def test_a_provider_hears_of_the_span_that_is_told() -> None:
    assert parent_of_call(EXCHANGE, PARENT, 1, 0.0) == f"00-{TRACE}-{span_id_of(EXCHANGE, 1)}-01"
    own = trace_id_of(EXCHANGE, "")
    assert parent_of_call(EXCHANGE, "", 0, 1.0) == f"00-{own}-{span_id_of(EXCHANGE, 0)}-01"
    # Of an exchange that nobody is told of, the client's own span stays the one above.
    silent = f"00-{TRACE}-{SPAN}-00"
    assert parent_of_call(EXCHANGE, silent, 0, 1.0) == silent
    assert parent_of_call(EXCHANGE, "", 0, 0.0) == f"00-{own}-{span_id_of(EXCHANGE, 0)}-00"


def test_a_random_id_stays_known_as_one() -> None:
    assert parent_of_call(EXCHANGE, f"00-{TRACE}-{SPAN}-03", 0, 1.0).endswith("-03")


@given(st.text(max_size=20), st.floats(0, 1))
def test_a_share_is_the_share_of_everybody_else(exchange: str, share: float) -> None:
    number = int(trace_id_of(exchange, ""), 16)
    decided = TraceIdRatioBased(share).should_sample(None, number, "chat").decision
    assert is_sampled(exchange, "", share) is (decided is Decision.RECORD_AND_SAMPLE)


def test_a_client_decides_for_its_own_traces() -> None:
    assert is_sampled(EXCHANGE, PARENT, 0.0)
    assert not is_sampled(EXCHANGE, f"00-{TRACE}-{SPAN}-00", 1.0)
