"""What the accounts keep of a record."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from dragoman.gateway.observability.journal_entries import (
    address_of,
    finalized_entry,
    opened_entry,
    outcome_of,
    product_of,
)
from dragoman.gateway.observability.record import Record
from dragoman.model.response import Usage
from dragoman.providers.provider import Endpoint, Provider
from dragoman.records.journal_entry import (
    ANSWERED,
    CANCELLED,
    CONVERSATION,
    FAILED,
    OPEN,
    REFUSED,
    CallEntry,
    CandidateEntry,
    LossEntry,
    TokenCounts,
)
from dragoman.routing.target import Target
from dragoman.sessions.facts import ExchangeFacts
from dragoman.translate import LossLine

BEGUN = Record(
    id="req_1",
    client_protocol="openai-chat",
    path="/chat/completions",
    started=10.0,
    time=1_700_000_000_250_000,
    address="192.0.2.77",
    program="claude-cli/2.1.325",
    key="alice",
    requested_model="large",
    size=512,
)
USAGE = Usage(input=100, output=20, cache_read=60, thinking=5, web_searches=1)


def test_a_settled_record_is_an_entry() -> None:
    record = replace(
        BEGUN,
        provider="openai",
        model="gpt-5.1",
        provider_protocol="openai-chat",
        stream=True,
        status=200,
        first_content=10.5,
        ended=12.0,
        usage=USAGE,
        attempts=(
            CallEntry(provider="a", model="m", protocol="p", kind="timeout", ended=200_000, maybe_billed=True),
            CallEntry(
                provider="openai", model="gpt-5.1", protocol="p", started=200_000, status=200, provider_request_id="u"
            ),
        ),
        losses=(
            {
                "fate": "dropped",
                "feature": "sampling",
                "weight": "changes_response",
                "at": "sampling.seed",
                "note": "never kept",
            },
        ),
    )
    entry = finalized_entry(record, "network")
    tokens = TokenCounts(input=100, cache_read=60, output=20, thinking=5, searches=1)
    assert (entry.id, entry.time, entry.outcome, entry.kind) == ("req_1", 1_700_000_000_250_000, ANSWERED, CONVERSATION)
    assert (entry.key, entry.client, entry.program, entry.address) == (
        "alice",
        "claude-cli",
        "claude-cli/2.1.325",
        "192.0.2.0/24",
    )
    assert (entry.first_content, entry.duration, entry.size) == (500_000, 2_000_000, 512)
    assert entry.tokens == tokens
    assert entry.losses == (LossEntry("sampling", "dropped", "sampling.seed"),)
    assert entry.provider_request_id == "u"
    assert entry.calls == record.attempts
    assert "never kept" not in repr(entry)


def test_pitfall_425_what_is_known_of_tokens_stays_as_it_was_counted() -> None:
    """Usage of each attempt is its own; that of the whole is what the record says that all of them came to."""
    attempt = CallEntry(provider="a", model="m", protocol="p", tokens=TokenCounts(input=7))
    entry = finalized_entry(
        replace(BEGUN, attempts=(attempt,), tokens=TokenCounts(input=9), usage=USAGE, status=200), "off"
    )
    assert entry.tokens == TokenCounts(input=9)
    assert entry.calls[0].tokens == TokenCounts(input=7)
    assert entry.address == ""
    assert finalized_entry(BEGUN, "full").tokens is None


@pytest.mark.parametrize(
    ("status", "failure", "first", "outcome"),
    [
        (200, "", 0.0, ANSWERED),
        (200, "", 11.0, ANSWERED),
        (404, "not_found", 0.0, REFUSED),
        (502, "unreachable", 0.0, REFUSED),
        (200, "truncated", 11.0, FAILED),
        (200, "shutdown", 11.0, FAILED),
        (503, "shutdown", 0.0, REFUSED),
        (499, "cancelled", 0.0, CANCELLED),
        (200, "cancelled", 11.0, CANCELLED),
    ],
)
def test_pitfall_421_every_end_has_its_outcome(status: int, failure: str, first: float, outcome: str) -> None:
    assert outcome_of(replace(BEGUN, status=status, failure=failure, first_content=first)) == outcome


def test_what_is_opened_says_whom_it_was_put_to() -> None:
    endpoint = Endpoint(protocol="openai-chat", base_url="http://127.0.0.1/v1")
    provider = Provider(name="local", endpoints=(endpoint,), keys=())
    entry = opened_entry(
        BEGUN, "network", Target(provider=provider, endpoint=endpoint, model="qwen3", strict=False), 2048
    )
    assert (entry.outcome, entry.provider, entry.model, entry.provider_protocol, entry.size) == (
        OPEN,
        "local",
        "qwen3",
        "openai-chat",
        2048,
    )
    assert opened_entry(replace(BEGUN, provider="other"), "network", None, 1).provider == "other"


def test_whom_it_might_have_gone_to_is_known_from_the_beginning() -> None:
    candidates = (CandidateEntry("b/m"), CandidateEntry("a/m", "left out: in cooldown"))
    record = replace(BEGUN, candidates=candidates, candidates_more=4, status=200)
    for told in (opened_entry(record, "off", None, 1), finalized_entry(record, "off")):
        assert (told.candidates, told.candidates_more) == (candidates, 4)
    assert (finalized_entry(BEGUN, "off").candidates, finalized_entry(BEGUN, "off").candidates_more) == ((), None)


def test_what_is_known_of_the_program_is_its_name_unless_somebody_knows_better() -> None:
    assert product_of("claude-cli/2.1.325") == "claude-cli"
    assert product_of("curl") == "curl"
    assert product_of("x" * 200) == "x" * 64
    assert finalized_entry(replace(BEGUN, facts=ExchangeFacts(client="claude-code")), "off").client == "claude-code"


@pytest.mark.parametrize(
    ("address", "kept", "written"),
    [
        ("192.0.2.77", "network", "192.0.2.0/24"),
        ("2001:db8:1:2:3::4", "network", "2001:db8:1::/48"),
        ("::ffff:192.0.2.77", "network", "192.0.2.0/24"),
        ("fe80::1%eth0", "network", "fe80::/48"),
        ("192.0.2.77", "full", "192.0.2.77"),
        ("192.0.2.77", "off", ""),
        ("", "network", ""),
        ("nobody knows", "network", ""),
    ],
)
def test_as_much_of_an_address_is_kept_as_is_configured(address: str, kept: str, written: str) -> None:
    assert address_of(address, kept) == written


def test_what_outsiders_choose_is_cut_and_losses_are_bounded() -> None:
    """A request of many megabytes may be one name, or lose something in each of many thousand places."""
    long = "x" * 1_000_000
    record = replace(
        BEGUN,
        path=f"/{long}",
        requested_model=long,
        model=long,
        route=long,
        response_model=long,
        refusal=long,
        stop_reason=long,
        response_id=long,
        queue_full=(long,),
        losses=tuple(
            {"fate": "dropped", "feature": "sampling", "weight": "changes_response", "at": long, "note": ""}
            for _ in range(1000)
        ),
        status=200,
        ended=11.0,
    )
    settled, opened = finalized_entry(record, "network"), opened_entry(record, "network", None, 5)
    assert len(settled.losses) == 256
    assert len(msgspec.json.encode(settled)) < 100_000
    assert len(msgspec.json.encode(replace(settled, losses=()))) < 4000
    assert len(msgspec.json.encode(opened)) < 2000


def test_losses_that_change_the_response_are_kept_before_bookkeeping() -> None:
    marks: list[LossLine] = [
        {"fate": "dropped", "feature": "cache_breakpoint", "weight": "bookkeeping", "at": f"messages[{n}]", "note": ""}
        for n in range(300)
    ]
    last: LossLine = {"fate": "dropped", "feature": "top_k", "weight": "changes_response", "at": "top_k", "note": ""}
    found = finalized_entry(replace(BEGUN, losses=(*marks, last), status=200, ended=11.0), "network").losses
    assert len(found) == 256
    assert (found[0].feature, found[1].place) == ("top_k", "messages[0]")


@pytest.mark.parametrize(
    ("at", "kept"),
    [
        ("sampling.logit_bias", "sampling.logit_bias"),
        ("messages[1].parts[0].cache", "messages[1].parts[0].cache"),
        ("extras.x-odd_member2", "extras.x-odd_member2"),
        ("extras.what I never told anybody", "extras.?"),
        ("messages[3].extras.\x1b[31m", "messages[3].extras.?"),
        ("extras." + "x" * 100_000, "extras.?"),
        ("a." * 100_000, "a." * 12 + "?"),
        ("[" * 100_000, "?"),
        ("", ""),
    ],
    ids=range(9),
)
def test_what_is_no_name_is_no_place(at: str, kept: str) -> None:
    losses = ({"fate": "dropped", "feature": "unknown_field", "weight": "changes_response", "at": at, "note": ""},)
    entry = finalized_entry(replace(BEGUN, losses=losses, status=200, ended=11.0), "network")
    assert entry.losses == (LossEntry("unknown_field", "dropped", kept),)
