"""Old names: values that earlier versions stored under another name are read under the name they have today.

Everything above this module knows today's names alone. Nothing is rewritten on disk: rows keep what they hold.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from dragoman.records.journal_entry import JournalEntry, LossEntry

if TYPE_CHECKING:
    from dragoman.records.rows import RecordDetails

# Features of losses.
FEATURES = {
    "thinking_seal": "thinking_signature",
    "cache_mark": "cache_breakpoint",
    "late_instructions": "mid_conversation_system",
    "moved_tools": "tools_in_items",
    "foreign_content": "unsupported_content",
}

_Stored = TypeVar("_Stored", JournalEntry, "RecordDetails")


def with_current_names(stored: _Stored) -> _Stored:
    """A journal entry or the details of a row with today's names; the same object if it holds no old name."""
    for loss in stored.losses:
        if loss.feature in FEATURES:
            return _renamed(stored)
    return stored


def _renamed(stored: _Stored) -> _Stored:
    return replace(stored, losses=tuple([_loss(loss) for loss in stored.losses]))


def _loss(loss: LossEntry) -> LossEntry:
    return replace(loss, feature=FEATURES.get(loss.feature, loss.feature))
