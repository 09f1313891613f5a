"""Listener: hears who is speaking, from headers and, where exchanges are written down, from a look at the body."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import partial

from msgspec.structs import replace

from dragoman.gateway.observability.logs import Log
from dragoman.gateway.observability.record import Record
from dragoman.model.session_hints import HintQuery, SessionHints
from dragoman.protocols.registry import codec_of
from dragoman.records.digest_key import key_of, secret_in
from dragoman.records.journal_directory import directory_of
from dragoman.sessions.assign import thread_key_of
from dragoman.sessions.classes import class_of
from dragoman.sessions.fact_extraction import body_facts, header_facts
from dragoman.sessions.facts import ExchangeFacts
from dragoman.sessions.rules import DISTINCTIVE_TOOLS, INSERTIONS, NAMING_MEMBERS, SPAWNING_TOOLS
from dragoman.store import MEMORY
from dragoman.wire.history_digest import SPARSE, digest, is_crowded

# Names of gateway keys that are remembered; there are as many as the file has.
_MAX_KEYS = 4096


class SessionFacts:
    """Hears for one process. Until there are records its digests are of use to nobody else, and go nowhere."""

    def __init__(self) -> None:
        self._secret = os.urandom(32)
        self._queries: dict[str, HintQuery] = {}
        # Whether what is heard is kept, and whether a rule asks for it.
        self.is_recorded = False
        self.is_required = False

    def attach_records(self, path: str, log: Log) -> None:
        """Hear for the records beside a file; where they have no secret, conversations do not outlive the process."""
        if not path or path == MEMORY:
            return
        self.is_recorded = True
        try:
            self._secret = secret_in(directory_of(path))
        except OSError as error:
            message = "cannot read digest key: conversations are not recognized after a restart"
            log.event("warn", message, reason=str(error))
        self._queries.clear()

    def extractor(self, record: Record) -> Callable[[bytes], ExchangeFacts]:
        """What hears who speaks in a body, knowing what the headers say."""
        if not (self.is_recorded or self.is_required) or not record.client_protocol:
            return partial(_no_facts, record.facts)
        query = self._queries.get(record.key) or self._query_of(record.key)
        return partial(_extract, record.facts, codec_of(record.client_protocol).session_hints_of, query)

    def facts(self, headers: Iterable[tuple[bytes, bytes]], protocol: str, key: str, body: bytes) -> ExchangeFacts:
        """Who speaks in a request, whether that is kept or not."""
        return _extract(header_facts(headers), codec_of(protocol).session_hints_of, self._query_of(key), body)

    def with_response(self, record: Record, call: str, response: str) -> ExchangeFacts:
        """Who speaks, with what its answer is known by in later requests: its first call, and its id.

        Where a thread has a name, calls are not needed to find it again.
        """
        facts = record.facts
        if not self.is_recorded or (call and thread_key_of(facts, class_of(facts).kind).thread):
            call = ""
        if not self.is_recorded or not (call or response):
            return facts
        key = self._query_of(record.key).key
        return replace(
            facts,
            answer_call=digest(key, "call", call) if call else "",
            answer_id=digest(key, "response", response) if response else "",
        )

    def _query_of(self, key: str) -> HintQuery:
        """What is looked for."""
        query = self._queries.get(key)
        if query is None:
            if len(self._queries) >= _MAX_KEYS:
                self._queries.clear()
            query = HintQuery(
                key=key_of(self._secret, key),
                distinctive_tools=DISTINCTIVE_TOOLS,
                spawning=SPAWNING_TOOLS,
                naming=NAMING_MEMBERS,
                insertions=INSERTIONS,
            )
            self._queries[key] = query
        return query


def _extract(
    facts: ExchangeFacts,
    session_hints_of: Callable[[bytes, HintQuery], SessionHints],
    query: HintQuery,
    body: bytes,
) -> ExchangeFacts:
    if len(body) > SPARSE and is_crowded(body):
        return facts
    return body_facts(facts, session_hints_of(body, query))


def _no_facts(facts: ExchangeFacts, _: bytes) -> ExchangeFacts:
    return facts
