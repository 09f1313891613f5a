"""Extracts session facts from headers and, if exchanges are recorded, from the body."""

from __future__ import annotations

import os
from collections.abc import Iterable

from msgspec.structs import replace

from dragoman.database_location import DatabaseLocation, is_persistent
from dragoman.gateway.observability.logs import Log
from dragoman.gateway.observability.record import Record
from dragoman.gateway.prefix_cache import PrefixCache, PrefixMatch, Scope
from dragoman.model.session_hints import HintQuery, SessionHints
from dragoman.protocols.codec import RequestGlance
from dragoman.records.digest_key import key_of, secret_in
from dragoman.records.journal_directory import directory_of
from dragoman.sessions.assign import thread_key_of
from dragoman.sessions.classes import class_of
from dragoman.sessions.fact_extraction import body_facts, header_facts
from dragoman.sessions.facts import ExchangeFacts
from dragoman.sessions.rules import DISTINCTIVE_TOOLS, INSERTIONS, NAMING_MEMBERS, SPAWNING_TOOLS
from dragoman.wire.conversation_history import HistoryCopies, HistoryReader
from dragoman.wire.history_digest import digest

_BRACKET = ord("[")
# Bytes of a history from which on it is stored to be continued: shorter ones are read faster.
LONG_HISTORY = 32 * 1024
# Where session hints are in the cache of arrays.
_SLOT = "session hints"
# Names of gateway keys that are remembered; there are as many as the file has.
_MAX_KEYS = 4096
# Facts of a request, and its history relative to an earlier one, if it is long enough.
Extracted = tuple[ExchangeFacts, PrefixMatch | None]


class SessionFacts:
    """Extracts session facts in one process. Without records its digests are not used and not stored."""

    def __init__(self) -> None:
        self._secret = os.urandom(32)
        self._queries: dict[str, HintQuery] = {}
        # Histories of earlier requests.
        self.prefixes = PrefixCache()
        # Whether facts are recorded, and whether a rule needs them.
        self.is_recorded = False
        self.is_required = False

    def attach_records(self, database: DatabaseLocation, log: Log) -> None:
        """Use the digest key of the records; without it, conversations do not outlive the process."""
        if not is_persistent(database):
            return
        self.is_recorded = True
        try:
            self._secret = secret_in(directory_of(database))
        except OSError as error:
            message = "cannot read digest key: conversations are not recognized after a restart"
            log.event("warn", message, reason=str(error))
        self._queries.clear()
        self.prefixes.clear()

    def extract(self, record: Record, glance: RequestGlance) -> Extracted:
        """The facts of a request, those of its headers included, if they are recorded or routed by, and the match of
        its history, if there is one."""
        if not (self.is_recorded or self.is_required):
            return record.facts, None
        return self._with_body(record.facts, record.key, glance)

    def facts(self, headers: Iterable[tuple[bytes, bytes]], key: str, glance: RequestGlance) -> ExchangeFacts:
        """The facts of a request, whether they are recorded or not."""
        return self._with_body(header_facts(headers), key, glance)[0]

    def _with_body(self, facts: ExchangeFacts, key: str, glance: RequestGlance) -> Extracted:
        if glance.is_crowded:
            return facts, None
        query = self._queries.get(key) or self._query_of(key)
        is_named = facts.thread != "" and facts.session != ""
        history = glance.history
        if len(history) < LONG_HISTORY or memoryview(history)[0] != _BRACKET:
            return body_facts(facts, glance.session_hints(query, is_named=is_named)), None
        # A request usually continues an earlier one. Its translation does so, too.
        prefixes = self.prefixes
        match = prefixes.match(Scope(key, glance.protocol), bytes(history))
        return body_facts(facts, _continued(prefixes, match, query, glance, is_named=is_named)), match

    def with_response(self, record: Record, call: str, response: str) -> ExchangeFacts:
        """The facts with the response's id and, unless the thread has a name, its first call."""
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
        """The query for facts."""
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


def _continued(
    prefixes: PrefixCache, match: PrefixMatch, query: HintQuery, glance: RequestGlance, *, is_named: bool
) -> SessionHints:
    """The hints of a request with a long history."""
    state, reader = match.state(_SLOT), HistoryReader()
    if state is not None and isinstance(state[1], HistoryCopies):
        reader.resume(state[1], state[0])
        reader.tail = match.tail(reader.count).written if reader.count else b""
    hints = glance.session_hints(query, is_named=is_named, reader=reader)
    if reader.is_broken:
        reader = HistoryReader()
        hints = glance.session_hints(query, is_named=is_named, reader=reader)
    if reader.copies.copies:
        prefixes.store(match, _SLOT, reader.copies, reader.count)
    return hints
