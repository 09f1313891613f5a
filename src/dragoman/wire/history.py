"""History: keyed digests of what was said so far, which do not change while a client only adds to it.

Rooms say each message in a few pieces: texts without reminders, ids in place of calls and results. What clients move,
renew or leave out from turn to turn (cache marks, thinking, contents of old results) is none of them.
"""

from __future__ import annotations

import re
from functools import lru_cache
from hashlib import blake2b

import msgspec
from msgspec import Raw

from dragoman.model.speech import Sought, Speech
from dragoman.wire.peek import peeked, text_in

# How many of the latest answers the history before is digested of.
ANSWERS = 4
# Bytes of a digest, and characters of instructions that belong to it: further down are dates and folders.
_SIZE = 16
_HEAD = 96
# Objects that may be small, and bytes of which one is at least, where there are more: messages have words in them.
_FEW, _SMALLEST = 2000, 16
# Prompts and tasks of one turn, and characters of a result in which its session stands.
_MOST = 16
_FIRST = 200
_OPEN, _CLOSE = "<system-reminder>", "</system-reminder>"
_digits = re.compile(r"\d+").sub
# The two forms by which results name the session of an agent.
_task = re.compile(r'\s*(?:task_id: |<task id=")(ses_[0-9A-Za-z]{1,124})').match
_ARGUMENTS = msgspec.json.Decoder(dict[str, Raw])


def digest(key: bytes, kind: str, text: str) -> str:
    """A text as it may be kept; `kind` keeps equal texts of different meaning apart."""
    return _sealed(key, f"{kind} {text}")


def _sealed(key: bytes, text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_SIZE, key=key).hexdigest()


@lru_cache(maxsize=512)
def _steady(head: str) -> str:
    """How instructions begin, without numbers, which may be dates; those of a program are the same in all requests."""
    return _digits("", head)


def is_crowded(body: bytes) -> bool:
    """Whether a request holds more objects than one that says something: to look at all of them would take too long."""
    count = body.count(b"{")
    return count > _FEW and count * _SMALLEST > len(body)


def without_reminders(text: str) -> str:
    """What somebody said, without what the client put in."""
    at = text.find(_OPEN)
    if at < 0:
        return text
    kept, end = [], 0
    while at >= 0:
        close = text.find(_CLOSE, at)
        if close < 0:
            break
        kept.append(text[end:at])
        end = close + len(_CLOSE)
        at = text.find(_OPEN, end)
    kept.append(text[end:])
    return "".join(kept).strip()


class History:
    """Collects what is said in a request; `speech` is what it shows."""

    __slots__ = (
        "_calls",
        "_first",
        "_is_answer",
        "_opened",
        "_said",
        "_starts",
        "_tasks",
        "head",
        "instructions",
        "messages",
    )

    def __init__(self) -> None:
        # The messages in order, each as one text, and where answers begin.
        self._said: list[str] = []
        self._starts: list[int] = []
        self._is_answer = False
        # What the user said first; None as long as nothing is.
        self._first: str | None = None
        self._opened = 0
        # Of the latest answer: calls by id with the tool and its arguments.
        self._calls: list[tuple[str, str, Raw | str]] = []
        self._tasks: list[tuple[str, Raw | str]] = []
        self.head = ""
        self.instructions = 0
        self.messages = 0

    def instruct(self, text: str) -> None:
        """Instructions; those that come after the first word are the client's, and change nothing."""
        if not self._said:
            self.instructions += len(text)
            if len(self.head) < _HEAD:
                self.head += text[:_HEAD]

    def answer(self, pieces: list[str]) -> None:
        """What the model said."""
        self.messages += 1
        self._in_answer()
        if pieces:
            self._said.append("a" + "\x1f".join(pieces))

    def call(self, call_id: str, tool: str, arguments: Raw | str) -> str:
        """A call of the model, which may come before the rest of its answer; its piece."""
        self._in_answer()
        self._calls.append((call_id, tool, arguments))
        return f"call {call_id}"

    def ask(self, pieces: list[str], text: str | None = None) -> None:
        """What was said to the model; `text` is the words in it."""
        self.messages += 1
        if text and self._first is None:
            self._first, self._opened = text, len(self._said)
        if pieces:
            self._is_answer = False
            self._said.append("u" + "\x1f".join(pieces))

    def result(self, call_id: str, content: Raw | str) -> str:
        """What a tool gave; its piece."""
        if len(self._tasks) < _MOST:
            self._tasks.append((call_id, content))
        return f"result {call_id}"

    def _in_answer(self) -> None:
        if not self._is_answer:
            self._is_answer = True
            self._starts.append(len(self._said))
            self._calls.clear()
            self._tasks.clear()

    def speech(
        self,
        sought: Sought,
        *,
        tools: int,
        telling: tuple[str, ...],
        user: str = "",
        cache_key: str = "",
        metadata: bytes = b"",
        conversation: str = "",
        previous: str = "",
    ) -> Speech:
        """All that a request shows, with what its room found beside its messages."""
        key, first = sought.key, self._first
        calls = self._calls if first is not None and len(self._said) > 1 else []
        spawned = [each for each in calls if each[1] in sought.spawning][:_MOST] if calls else []
        prompts = [_prompt(arguments, sought.spawning[tool]) for _, tool, arguments in spawned]
        opening, tip, before = self._digests(key) if first is not None and self._said else ("", "", ())
        return Speech(
            instructions=self.instructions,
            tools=tools,
            messages=self.messages,
            telling=telling,
            user=user,
            cache_key=cache_key,
            metadata=metadata,
            conversation=conversation,
            previous=digest(key, "response", previous) if previous else "",
            opening=opening,
            # Who has no tools is nobody's agent.
            asks=digest(key, "prompt", first.strip()) if tools and first is not None and opening else "",
            tip=tip,
            before=before,
            call=digest(key, "call", calls[0][0]) if calls else "",
            prompts=tuple([digest(key, "prompt", prompt.strip()) for prompt in prompts if prompt]),
            tasks=_tasks_in(self._tasks, {call_id for call_id, _, _ in spawned}) if spawned else (),
        )

    def _digests(self, key: bytes) -> tuple[str, str, tuple[str, ...]]:
        """Of how the history began, of all of it, and of it before each of its latest answers, the last one first."""
        said, head = self._said, f"history {_steady(self.head[:_HEAD])}\x1e"
        if len(said) == 1:
            whole = _sealed(key, f"{head}{said[0]}\x1e")
            return whole, whole, ()
        hasher = blake2b(head.encode("utf-8", "surrogatepass"), digest_size=_SIZE, key=key)
        before: list[str] = []
        # Up to the first words of the user.
        at = self._opened + 1
        hasher.update("\x1e".join([*said[:at], ""]).encode("utf-8", "surrogatepass"))
        opening = hasher.hexdigest()
        for start in self._starts[-ANSWERS:]:
            if start >= at and start:
                hasher.update("\x1e".join([*said[at:start], ""]).encode("utf-8", "surrogatepass"))
                before.append(hasher.hexdigest())
                at = start
        if at < len(said):
            hasher.update("\x1e".join([*said[at:], ""]).encode("utf-8", "surrogatepass"))
        before.reverse()
        return opening, hasher.hexdigest(), tuple(before)


def _prompt(arguments: Raw | str, member: str) -> str:
    """The prompt in the arguments of a call; "" if there is none."""
    found = peeked(arguments.encode("utf-8", "surrogatepass") if isinstance(arguments, str) else arguments, _ARGUMENTS)
    return text_in(found[member]) if found is not None and member in found else ""


def _tasks_in(results: list[tuple[str, Raw | str]], calls: set[str]) -> tuple[str, ...]:
    """The sessions that results of these calls name, at their beginning alone: what follows is what an agent said."""
    texts = [
        content if isinstance(content, str) else text_in(content) for call_id, content in results if call_id in calls
    ]
    found = [_task(text[:_FIRST]) for text in texts]
    return tuple(dict.fromkeys([match[1] for match in found if match is not None]))
