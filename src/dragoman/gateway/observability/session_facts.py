"""Listener: hears who is speaking, from headers and, where exchanges are written down, from a look at the body."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import partial

from msgspec.structs import replace

from dragoman.gateway.observability.logs import Log
from dragoman.gateway.observability.record import Record
from dragoman.model.session_hints import HintQuery
from dragoman.protocols.registry import codec_of
from dragoman.records.digest_key import key_of, secret_in
from dragoman.records.journal_directory import folder_of
from dragoman.sessions.assign import spot_of
from dragoman.sessions.classes import class_of
from dragoman.sessions.fact_extraction import heard, spoken
from dragoman.sessions.facts import ExchangeFacts
from dragoman.sessions.rules import INSERTIONS, NAMING_MEMBERS, SPAWNING_TOOLS, TELLING_TOOLS
from dragoman.store import MEMORY
from dragoman.wire.history_digest import digest, is_crowded

# Names of gateway keys that are remembered; there are as many as the file has.
_MOST_KEYS = 4096


class SessionFacts:
    """Hears for one process. Until there are records its digests are of use to nobody else, and go nowhere."""

    def __init__(self) -> None:
        self._secret = os.urandom(32)
        self._sought: dict[str, HintQuery] = {}
        # Whether what is heard is kept, and whether a rule asks for it.
        self.kept = False
        self.asked = False

    def keep(self, path: str, log: Log) -> None:
        """Hear for the records beside a file; where they have no secret, conversations do not outlive the process."""
        if not path or path == MEMORY:
            return
        self.kept = True
        try:
            self._secret = secret_in(folder_of(path))
        except OSError as error:
            log.event("warn", "conversations are not known again after a restart", why=str(error))
        self._sought.clear()

    def ear(self, record: Record) -> Callable[[bytes], ExchangeFacts]:
        """What hears who speaks in a body, knowing what the headers say."""
        if not (self.kept or self.asked) or not record.dialect:
            return partial(_deaf, record.facts)
        return partial(_hear, record.facts, record.dialect, self._sought_of(record.key))

    def facts(self, headers: Iterable[tuple[bytes, bytes]], dialect: str, key: str, body: bytes) -> ExchangeFacts:
        """Who speaks in a request, whether that is kept or not."""
        return _hear(heard(headers), dialect, self._sought_of(key), body)

    def answered(self, record: Record, call: str, response: str) -> ExchangeFacts:
        """Who speaks, with what its answer is known by in later requests: its first call, and its id.

        Where a thread has a name, calls are not needed to find it again.
        """
        facts = record.facts
        if not self.kept or (call and spot_of(facts, class_of(facts).kind).thread):
            call = ""
        if not self.kept or not (call or response):
            return facts
        key = self._sought_of(record.key).key
        return replace(
            facts,
            answer_call=digest(key, "call", call) if call else "",
            answer_id=digest(key, "response", response) if response else "",
        )

    def _sought_of(self, key: str) -> HintQuery:
        """What is looked for."""
        found = self._sought.get(key)
        if found is None:
            if len(self._sought) >= _MOST_KEYS:
                self._sought.clear()
            found = HintQuery(
                key=key_of(self._secret, key),
                telling=TELLING_TOOLS,
                spawning=SPAWNING_TOOLS,
                naming=NAMING_MEMBERS,
                insertions=INSERTIONS,
            )
            self._sought[key] = found
        return found


def _hear(facts: ExchangeFacts, dialect: str, sought: HintQuery, body: bytes) -> ExchangeFacts:
    if is_crowded(body):
        return facts
    return spoken(facts, codec_of(dialect).speech_of(body, sought))


def _deaf(facts: ExchangeFacts, _: bytes) -> ExchangeFacts:
    return facts
