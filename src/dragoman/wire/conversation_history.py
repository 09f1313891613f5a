"""Conversation history: reduces the messages of a request to the digests and ids that identify its session. It reads
messages in order. A copy taken at any message can be continued by the next request of the conversation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from itertools import islice

from msgspec import Raw, Struct

from dragoman.model.session_hints import HintQuery, SessionHints
from dragoman.wire.history_digest import (
    INSTRUCTION,
    MIN_REPEATED,
    NO_TOOLS,
    RECORD,
    USER,
    CallOrResult,
    ToolShape,
    Turn,
    digest,
    hashers_of,
    head_digest,
    without_repeated,
)
from dragoman.wire.short_history import (
    LOOKED_BACK,
    MAX_ENTRIES,
    NO_DIGESTS,
    NO_NAMES,
    Digests,
    ReadHistory,
    digest_prompts,
    digest_texts,
    head_of,
    named_threads,
    opening_of,
    read_short,
    tasks_in,
)

# Latest messages that stay undigested, because a client may insert its own response to them.
_UNDIGESTED = 2
# Limits of copies: the number of latest messages after which a copy is stored (clients change these messages in the
# next request), the agent calls beyond which no copies are stored, and the estimated bytes of a copy and of the head of
# a result.
_COPIES, _MAX_BEGUN, _COPY_SIZE, _OUTPUT_SIZE = 8, 256, 1024, 256


class ConversationHistory:
    __slots__ = (
        "begun",
        "digested",
        "first",
        "first_call",
        "first_prompt",
        "hasher",
        "heads",
        "in_response",
        "instructed",
        "instructions",
        "is_acknowledged",
        "is_broken",
        "messages",
        "opened",
        "opening",
        "outputs",
        "query",
        "result_count",
        "results",
        "spawned",
        "starts",
        "texts",
    )

    def __init__(self, query: HintQuery) -> None:
        self.query = query
        # The number of messages without instructions, and the text of the instructions before them.
        self.messages = 0
        self.instructions = ""
        # Texts of the latest messages, and the number of earlier texts that are digested.
        self.texts: list[str] = []
        self.digested = 0
        # The first user text, and the number of messages with text before it.
        self.first, self.opened = "", 0
        self.in_response = self.is_acknowledged = False
        # The indexes at which responses start. Of the latest response: its first call, the calls that start agents, the
        # number of results, and the heads of the results of agents.
        self.starts: list[int] = []
        self.first_call: str | None = None
        self.spawned: tuple[CallOrResult, ...] = ()
        self.result_count = 0
        self.results: tuple[tuple[str, str], ...] = ()
        self.begun: dict[str, CallOrResult] = {}
        self.outputs: dict[str, str] = {}
        # The hasher of the digested texts. Digests of the first user text, the start of the instructions, the start of
        # the conversation, and the history before each response.
        self.hasher: blake2b | None = None
        self.first_prompt = self.instructed = self.opening = ""
        self.heads: dict[int, str] = {}
        # Whether a digested message was removed, so that only the full history gives the digests.
        self.is_broken = False

    def read(self, turns: Iterable[Turn]) -> None:
        texts, insertions, in_response = self.texts, self.query.insertions, self.in_response
        for role, text, words, entries in turns:
            if role is USER:
                self.messages += 1
                if words:
                    if words in insertions.inserted:
                        self._leave_out(words)
                        texts = self.texts
                        continue
                    if not self.first:
                        self.first, self.opened = words, self.digested + len(texts)
                if entries and self.begun:
                    self._read_results(entries)
                if text:
                    in_response = False
                    texts.append(text)
            elif role is INSTRUCTION:
                # Instructions after the first message come from the client and do not change the digests.
                if not texts and not self.digested:
                    self.instructions += words
            else:
                self.messages += 1
                if self.is_acknowledged and text[1:] == insertions.acknowledged:
                    self.is_acknowledged = False
                    continue
                if not in_response:
                    if not entries and text[1:] in insertions.replies:
                        self._take_back()
                        continue
                    in_response = True
                    self._begin_response(self.digested + len(texts))
                if entries:
                    self._read_calls(entries)
                if text:
                    texts.append(text)
        self.in_response = in_response

    def _read_results(self, results: Sequence[CallOrResult]) -> None:
        """Read results; only results of agents count."""
        for call_id, _, content in results:
            if call_id in self.begun:
                output = head_of(content)
                self.outputs[call_id] = output
                if self.result_count < MAX_ENTRIES:
                    self.results += ((call_id, output),)
            self.result_count += 1

    def _read_calls(self, calls: Sequence[CallOrResult]) -> None:
        if self.first_call is None:
            self.first_call = calls[0][0]
        spawning = self.query.spawning
        for call_id, tool, arguments in calls:
            if tool in spawning:
                # A slice would keep the entire body in memory.
                call = call_id, tool, arguments if isinstance(arguments, str) else arguments.copy()
                self.begun[call_id] = call
                if len(self.spawned) < MAX_ENTRIES:
                    self.spawned += (call,)

    def _begin_response(self, start: int) -> None:
        self.starts.append(start)
        self.first_call, self.result_count, self.spawned, self.results = None, 0, (), ()

    def _leave_out(self, words: str) -> None:
        """Skip a message that the client inserts. After some of these, skip all earlier messages too: they are
        examples."""
        self.is_acknowledged = True
        if words in self.query.insertions.after_examples:
            self.texts, self.starts, self.digested, self.first = [], [], 0, ""
            self.hasher, self.opening, self.heads = None, "", {}
            self.first_call, self.result_count, self.spawned, self.results = None, 0, (), ()

    def _take_back(self) -> None:
        """Remove the latest message: the client inserted it together with its own response."""
        if self.texts:
            self.texts.pop()
        elif self.digested:
            self.is_broken = True
        if self.opened >= self.digested + len(self.texts):
            self.first = ""

    def begins_with(self, instructions: str) -> bool:
        """Whether the digests are valid for a request with these instructions beside its messages."""
        return self.hasher is None or self.instructed == self._instructed(instructions)

    def _instructed(self, instructions: str) -> str:
        return head_digest(self.query.key, instructions + self.instructions)

    def copied(self, instructions: str) -> ConversationHistory:
        """Return the history so far, for other requests to continue. Most of its texts are digested first."""
        self._digest_texts(instructions)
        return self.continued()

    def continued(self) -> ConversationHistory:
        other = ConversationHistory(self.query)
        other.messages, other.instructions = self.messages, self.instructions
        other.texts, other.digested = self.texts.copy(), self.digested
        other.first, other.opened = self.first, self.opened
        other.in_response, other.is_acknowledged = self.in_response, self.is_acknowledged
        other.starts, other.first_call, other.spawned = self.starts[-LOOKED_BACK:], self.first_call, self.spawned
        other.result_count, other.results = self.result_count, self.results
        other.begun, other.outputs = self.begun.copy(), self.outputs.copy()
        other.hasher = None if self.hasher is None else self.hasher.copy()
        other.first_prompt, other.instructed, other.opening = self.first_prompt, self.instructed, self.opening
        other.heads = {start: self.heads[start] for start in other.starts if start in self.heads}
        other.is_broken = self.is_broken
        return other

    def _digest_texts(self, instructions: str) -> None:
        end = self.digested + len(self.texts) - _UNDIGESTED
        if not self.first or end <= max(self.digested, self.opened + 1):
            return
        hasher = self.hasher
        if hasher is None:
            self.instructed = self._instructed(instructions)
            self.first_prompt, self.opening = opening_of(
                self.query, self.texts, self.first, self.opened, self.instructed
            )
            at = self.digested = self.opened + 1
            del self.texts[:at]
            hasher = self.hasher = hashers_of(self.query.key)["history"].copy()
            hasher.update(self.opening.encode() + RECORD.encode())
        texts, begin = self.texts, self.digested
        for start in sorted({start for start in self.starts[-LOOKED_BACK:] if self.digested <= start <= end}):
            digest_texts(hasher, texts[self.digested - begin : start - begin])
            self.digested = start
            self.heads[start] = hasher.hexdigest() if start > self.opened + 1 else self.opening
        digest_texts(hasher, texts[self.digested - begin : end - begin])
        self.digested = end
        del texts[: end - begin]

    @property
    def size(self) -> int:
        """Memory size in bytes, estimated, without the parts that copies share."""
        return _COPY_SIZE + sum(map(len, self.texts))

    @property
    def shared_size(self) -> int:
        """Size in bytes of the parts that copies share."""
        calls = sum([len(arguments) for _, _, arguments in self.begun.values()])
        return len(self.instructions) + len(self.first) + calls + (len(self.begun) + len(self.outputs)) * _OUTPUT_SIZE

    def digests(self, instructions: str, *, has_tools: bool, is_named: bool) -> Digests:
        """Return the digests of the history, with instructions that come before all messages. A request that `is_named`
        needs no call ids. A request without tools is not an agent's."""
        texts, first = self.texts, self.first
        if (
            not self.in_response
            and len(instructions) >= MIN_REPEATED
            and (not texts or texts[-1][-1] == instructions[-1])
        ):
            texts, first = self._without_repeated(instructions)
        if not first:
            return NO_DIGESTS
        if self.hasher is None:
            prompt, opening = opening_of(
                self.query, texts, first, self.opened, head_digest(self.query.key, instructions)
            )
        else:
            prompt, opening = self.first_prompt, self.opening
        length = self.digested + len(texts)
        if length == 1:
            return opening, prompt if has_tools else "", opening, NO_NAMES, "", NO_NAMES, NO_NAMES, NO_NAMES
        heads = self._heads(opening, texts) if length > self.opened + 1 else [opening]
        call, prompts, tasks, agents = "", NO_NAMES, NO_NAMES, NO_NAMES
        if self.first_call is not None:
            if not is_named:
                call = digest(self.query.key, "call", self.first_call)
            if self.spawned:
                prompts, agents = digest_prompts(self.spawned, self.query)
                tasks = tasks_in(self.results, {call_id for call_id, _, _ in self.spawned})
        return opening, prompt if has_tools else "", heads[0], tuple(heads[1:]), call, prompts, tasks, agents

    def _without_repeated(self, instructions: str) -> tuple[list[str], str]:
        """The texts and the first user text, without the instructions that a client repeats after the latest
        question."""
        texts, first = self.texts, self.first
        if not texts:
            # The latest text is digested, although it was one of the last two.
            self.is_broken = self.is_broken or self.digested > 0
        else:
            texts = [*texts[:-1], without_repeated(texts[-1], instructions)]
            if not self.digested and len(texts) == 1:
                first = texts[0][1:]
        return texts, first

    def _heads(self, opening: str, texts: list[str]) -> list[str]:
        """Digests of the history, and of the history before each of its latest responses, the last first."""
        digested = self.digested or self.opened + 1
        if self.hasher is None:
            hasher = hashers_of(self.query.key)["history"].copy()
            hasher.update(opening.encode() + RECORD.encode())
            texts = texts[digested:]
        else:
            hasher = self.hasher.copy()
        heads: list[str] = []
        at, done, latest = self.opened + 1, digested, opening
        for start in (*self.starts[-LOOKED_BACK:], digested + len(texts)):
            if start < at:
                continue
            if start > done:
                digest_texts(hasher, texts[done - digested : start - digested])
                done, latest = start, hasher.hexdigest()
            elif start > at:
                latest = self.heads[start] if start in self.heads else hasher.hexdigest()
            at = start
            heads.append(latest)
        heads.reverse()
        return heads


class HistoryCopies(Struct, frozen=True):
    """Copies of a history, each with its number of messages; the raw instructions and their text."""

    copies: tuple[tuple[int, ConversationHistory], ...] = ()
    size: int = 0
    instructions: tuple[bytes, str] = (b"", "")

    def latest(self, count: int) -> tuple[int, ConversationHistory | None]:
        """The longest copy with at most `count` messages."""
        for number, history in reversed(self.copies):
            if number <= count:
                return number, history
        return 0, None


class HistoryReader(Struct):
    """Reads the history of one request: all messages, or the `tail` after the first `count` that a copy covers. It
    makes copies for the next request."""

    start: ConversationHistory | None = None
    count: int = 0
    tail: bytes = b""
    copies: HistoryCopies = HistoryCopies()
    # The raw instructions and their text, at first those of the earlier request.
    instructions: tuple[bytes, str] = (b"", "")
    # Whether the request turned out not to continue the copy.
    is_broken: bool = False

    def resume(self, earlier: HistoryCopies, common: int) -> None:
        """Continue the latest copy within the messages that both requests have in common."""
        self.count, self.start = earlier.latest(common)
        self.copies, self.instructions = earlier, earlier.instructions

    def text_of(self, instructions: Raw, decode: Callable[[Raw], str]) -> str:
        """Return the text of instructions. Most often they equal those of the earlier request, byte for byte."""
        written, text = self.instructions
        if len(written) != len(instructions) or not written.startswith(instructions):
            text = decode(instructions)
            self.instructions = bytes(instructions), text
        return text

    def hints(
        self, turns: Sequence[Turn], query: HintQuery, instructions: str, has_tools: bool, is_named: bool
    ) -> ReadHistory:
        """Read the messages, and return the digests of the entire history."""
        history = self.read(turns, query, instructions)
        instructions += history.instructions
        digests = history.digests(instructions, has_tools=has_tools, is_named=is_named)
        self.is_broken = self.is_broken or history.is_broken
        named = named_threads(history.begun, history.outputs, query) if history.outputs else ()
        return len(instructions), history.messages, digests, named

    def read(self, turns: Sequence[Turn], query: HintQuery, instructions: str) -> ConversationHistory:
        """Read the messages, and copy the history after each of the latest."""
        history = ConversationHistory(query) if self.start is None else self.start.continued()
        if not history.begins_with(instructions):
            self.is_broken = True
            return history
        total = self.count + len(turns)
        copies = [(number, copy) for number, copy in self.copies.copies if total - _COPIES < number <= self.count]
        at = max(len(turns) - _COPIES, 0)
        history.read(islice(turns, at))
        for number, turn in enumerate(islice(turns, at, None), self.count + at + 1):
            history.read((turn,))
            if len(history.begun) <= _MAX_BEGUN:
                copies.append((number, history.copied(instructions)))
        size = sum([copy.size for _, copy in copies]) + history.shared_size + self._instructions_size
        self.count, self.is_broken = total, history.is_broken
        self.copies = HistoryCopies(tuple(copies), size, self.instructions)
        return history

    @property
    def _instructions_size(self) -> int:
        written, text = self.instructions
        # One non-ASCII character makes Python store every character in up to four bytes.
        return len(written) + (len(text) if text.isascii() else 4 * len(text))


def session_hints_in(
    turns: Sequence[Turn],
    query: HintQuery,
    *,
    instructions: str = "",
    tools: ToolShape = NO_TOOLS,
    user: str = "",
    cache_key: str = "",
    metadata: bytes = b"",
    conversation: str = "",
    previous: str = "",
    is_named: bool = False,
    reader: HistoryReader | None = None,
) -> SessionHints:
    """Return the hints of a request. With a `reader`, its messages come first."""
    if reader is None:
        read = read_short(turns, query, instructions, tools[0] > 0, is_named)
    else:
        read = reader.hints(turns, query, instructions, tools[0] > 0, is_named)
    length, messages, digests, named = read
    return SessionHints(
        length,
        tools[0],
        messages,
        tools[1],
        user,
        cache_key,
        metadata,
        conversation,
        digest(query.key, "response", previous) if previous else "",
        *digests,
        named,
    )
