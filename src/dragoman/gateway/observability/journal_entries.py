"""Entries: the recorded parts of a request (decision 32), with addresses and user agents reduced as configured."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from functools import lru_cache
from math import trunc

from msgspec.structs import replace

from dragoman.gateway.observability.record import Record
from dragoman.identities.key_text import KEY_LENGTH, without_key_texts
from dragoman.model.response import Usage
from dragoman.records.journal_entry import (
    ANSWERED,
    CANCELLED,
    FAILED,
    OPEN,
    REFUSED,
    JournalEntry,
    LossEntry,
    TokenCounts,
)
from dragoman.routing.target import Target
from dragoman.sessions.facts import ExchangeFacts
from dragoman.translate import LossLine, heaviest_first

# Members and their numbers, as `messages[1].parts[0].cache`.
_MEMBER = r"[A-Za-z_][\w-]{0,63}(?:\[\d{1,9}\]){0,4}"
_is_location = re.compile(rf"{_MEMBER}(?:\.{_MEMBER}){{0,15}}", re.ASCII).fullmatch
_match_location_prefix = re.compile(rf"(?:{_MEMBER}\.){{1,12}}", re.ASCII).match
FULL, NETWORK, OFF = "full", "network", "off"
# Prefix lengths of a recorded network.
_IPV4, _IPV6 = 24, 48
# Numbers of the same type are multiplied faster, and `trunc` is a faster `int`.
MICROSECONDS = 1_000_000.0
# Maximum characters of a client's self-description.
_MAX_PRODUCT_LENGTH = 64
# Limits for names and paths from clients, and for losses listed one by one: a request of megabytes may be one name, or
# have a hundred thousand losses.
MAX_NAME_LENGTH = 256
_CUT = slice(MAX_NAME_LENGTH)
_MAX_LOSSES = 256
_CLIENT_CANCELLED = "cancelled"


def finalized_entry(record: Record, addresses: str) -> JournalEntry:
    """The journal entry of a finalized exchange; log line and counters are derived from it, too."""
    started, tokens, attempts, facts = record.started, record.tokens, record.attempts, record.facts
    first, program = record.first_content, record.program
    if tokens is None and record.usage is not None:
        tokens = tokens_of(record.usage)
    request = (
        record.id,
        record.time,
        ANSWERED if record.status < 400 and not record.failure else outcome_of(record),
        record.kind,
        record.key,
        facts.client or product_of(program),
        program,
        address_of(record.address, addresses),
        record.launch,
        record.client_protocol,
        record.path[_CUT],
        record.stream,
        requested if len(requested := record.requested_model) < KEY_LENGTH else _named(requested),
        record.provider,
        record.model[_CUT],
        record.provider_protocol,
        record.response_model[_CUT],
        record.route[_CUT],
        record.policy,
        record.reason,
    )
    response = (
        record.status,
        record.failure,
        record.stop_reason[_CUT],
        record.estimated,
        record.tags,
        tokens,
        # Never 0 for a known time.
        trunc((first - started) * MICROSECONDS) or 1 if first else 0,
        trunc((record.ended - started) * MICROSECONDS) or 1,
        attempts[-1].provider_request_id if attempts else "",
        record.response_id[_CUT],
        attempts,
        _lost(record.losses) if record.losses else (),
        record.cost,
        facts if len(facts.session) < KEY_LENGTH else _without_keys(facts),
        record.refusal[: 2 * MAX_NAME_LENGTH],
        tuple([target[_CUT] for target in record.queue_full]) if record.queue_full else (),
        record.size,
        record.trace,
        record.candidates,
        record.candidates_more,
    )
    # More than 30 arguments would be collected one by one.
    return JournalEntry(*(request + response))


def opened_entry(record: Record, addresses: str, target: Target | None, size: int) -> JournalEntry:
    """The journal entry of an exchange before its first call, with the size of its request."""
    provider, model, provider_protocol = record.provider, record.model, record.provider_protocol
    if target is not None:
        provider, model, provider_protocol = target.provider.name, target.printable_model, target.endpoint.protocol
    facts, program = record.facts, record.program
    # Calls with more than 30 arguments collect them in lists and dictionaries.
    entry = JournalEntry(
        record.id,
        record.time,
        OPEN,
        record.kind,
        record.key,
        facts.client or product_of(program),
        program,
        address_of(record.address, addresses),
        record.launch,
        record.client_protocol,
        record.path[_CUT],
        record.stream,
        requested if len(requested := record.requested_model) < KEY_LENGTH else _named(requested),
        provider,
        model[_CUT],
        provider_protocol,
        "",
        record.route[_CUT],
        record.policy,
        record.reason,
        size=size,
        facts=facts if len(facts.session) < KEY_LENGTH else _without_keys(facts),
    )
    if record.trace or record.candidates or record.tags:
        more, tags = record.candidates_more, record.tags
        return replace(entry, trace=record.trace, candidates=record.candidates, candidates_more=more, tags=tags)
    return entry


def _named(requested_model: str) -> str:
    """A long model name as it is recorded. Programs that are set up wrongly send their key as the model."""
    return without_key_texts(requested_model[: MAX_NAME_LENGTH + KEY_LENGTH])[_CUT]


def _without_keys(facts: ExchangeFacts) -> ExchangeFacts:
    """The facts of a request that names a long session, without a key in its name."""
    return replace(facts, session=without_key_texts(facts.session))


def outcome_of(record: Record) -> str:
    """The outcome: refused if no content was sent before, failed otherwise."""
    if not record.failure and record.status < 400:
        return ANSWERED
    if record.failure == _CLIENT_CANCELLED:
        return CANCELLED
    return REFUSED if record.status >= 400 and not record.first_content else FAILED


@lru_cache(maxsize=4096)
def product_of(program: str) -> str:
    """The name of a program without its version."""
    return program.partition("/")[0][:_MAX_PRODUCT_LENGTH]


@lru_cache(maxsize=4096)
def address_of(address: str, mode: str) -> str:
    """The recorded part of an address."""
    if mode == FULL or not address:
        return address
    if mode == OFF:
        return ""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return ""
    if isinstance(ip, ipaddress.IPv6Address) and ip.ipv4_mapped is not None:
        ip = ip.ipv4_mapped
    return str(ipaddress.ip_network(f"{ip}/{_IPV4 if ip.version == 4 else _IPV6}", strict=False))


def tokens_of(usage: Usage) -> TokenCounts:
    """Reported usage in summable form: a missing count is 0."""
    return TokenCounts(
        input=usage.input,
        cache_read=usage.cache_read or 0,
        cache_write=usage.cache_write or 0,
        output=usage.output,
        thinking=usage.thinking or 0,
        searches=usage.web_searches or 0,
    )


def _lost(losses: Sequence[LossLine]) -> tuple[LossEntry, ...]:
    if len(losses) > _MAX_LOSSES:
        losses = heaviest_first(losses)
    return tuple(
        [LossEntry(line["feature"], line["fate"], recorded_location(line["at"])) for line in losses[:_MAX_LOSSES]]
    )


def recorded_location(at: str) -> str:
    """Where something was lost. Unknown members may have any name. A name that is no identifier is left out."""
    if not at or (len(at) <= MAX_NAME_LENGTH and _is_location(at)):
        return at
    prefix = _match_location_prefix(at)
    return f"{prefix[0] if prefix else ''}?"
