"""Old names: values that earlier versions stored are read under today's names; nothing is rewritten on disk."""

from __future__ import annotations

from msgspec.structs import replace

from dragoman.records.journal_entry import JournalEntry

# Health levels of targets, in persisted cooldowns.
LEVELS = {"good": "healthy", "resting": "cooldown", "probed": "probing", "ramping": "slow_start", "keyless": "no_key"}
# Outcomes of attempts.
OUTCOMES = {
    "no_money": "insufficient_quota",
    "bad_key": "invalid_key",
    "too_long": "context_length_exceeded",
    "refused": "content_refused",
    "wrong_request": "invalid_request",
    "silent": "first_byte_timeout",
    "slow": "slow_response",
    "no_answer": "connection_lost",
    "broken": "stream_broken",
    "full": "queue_full",
    "ours": "gateway_error",
    "left": "client_disconnected",
}
# Reasons of candidates.
REASONS = {
    "left out: it rests": "left out: in cooldown",
    "behind: its window may be too small": "deprioritized: its window may be too small",
    "behind: it failed a moment ago": "deprioritized: failed a moment ago",
    "behind: it has only just come back, and gets some of the requests": (
        "deprioritized: slow start after a cooldown: it gets a part of the requests"
    ),
    "behind: all its slots are taken": "deprioritized: all its slots are taken",
    "behind: all its keys rest": "deprioritized: all its keys are in cooldown",
    "behind: it is in cooldown, and asked if all others fail": (
        "deprioritized: in cooldown: called if all others fail"
    ),
}
# Features of losses.
FEATURES = {
    "thinking_seal": "thinking_signature",
    "cache_mark": "cache_breakpoint",
    "late_instructions": "mid_conversation_system",
    "moved_tools": "tools_in_items",
    "foreign_content": "unsupported_content",
}


def with_current_names(stored: JournalEntry) -> JournalEntry:
    """An entry with today's names; the same object if it holds no old name."""
    # Ingestion calls this for every entry, and nearly all of them have no old name and few calls.
    for call in stored.calls:
        if call.kind in OUTCOMES:
            return _renamed(stored)
    for loss in stored.losses:
        if loss.feature in FEATURES:
            return _renamed(stored)
    for candidate in stored.candidates:
        if candidate.why in REASONS:
            return _renamed(stored)
    return stored


def _renamed(stored: JournalEntry) -> JournalEntry:
    return replace(
        stored,
        calls=tuple([replace(call, kind=OUTCOMES.get(call.kind, call.kind)) for call in stored.calls]),
        losses=tuple([replace(loss, feature=FEATURES.get(loss.feature, loss.feature)) for loss in stored.losses]),
        candidates=tuple([replace(each, why=REASONS.get(each.why, each.why)) for each in stored.candidates]),
    )
