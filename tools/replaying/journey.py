"""One exchange through all pairs of protocols, whole and streamed, with a second turn; what came out different."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import PurePosixPath
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from dragoman.errors import DragomanError
from dragoman.providers.catalogue import CatalogueEntry, catalogue
from dragoman.streaming import StreamPipeline
from dragoman.translate import TranslatedRequest, translate_request, translate_response
from tests.sdk.oracles import check_request
from tools.replaying.clients import Heard, hear_stream, hear_whole
from tools.replaying.protocols import CHAT, MESSAGES, PROTOCOLS, Object
from tools.replaying.reading import read_failure, read_whole
from tools.replaying.recordings import Exchange
from tools.replaying.said import CALLS, FILTERED, STOP, Call, Counts, Said, member, text_of
from tools.replaying.stream import CUT, read_stream
from tools.replaying.turns import EARLIER, echoed, question, read_echo, with_earlier_call

# Primes, so that no frame, line or character ends where a piece does.
_CUTS = (1, 7, 61, 1021)
_SHORT = 6_000
# Servers that want the reasoning of a whole tool turn back, that of its last answer included:
# https://api-docs.deepseek.com/guides/thinking_mode, https://platform.moonshot.ai/docs/guide/use-kimi-k2-thinking-model
_WANT_ALL = frozenset(("deepseek", "moonshot"))


class Difference(Struct, frozen=True, kw_only=True):
    """One thing that came out different, and where."""

    kind: str
    file: str
    pair: str
    form: str
    said: str
    came: str
    # Whether the answer calls tools.
    calling: bool = False
    # Whether it says and calls nothing that every client is told.
    mute: bool = False


class Tally(Struct, kw_only=True):
    """What one exchange came to."""

    translations: int = 0
    streams: int = 0
    differences: list[Difference] = []


class _Journey:
    """An exchange on its way to clients of one protocol."""

    def __init__(self, exchange: Exchange, target: str, said: Said, tally: Tally) -> None:
        self.exchange = exchange
        self.target = target
        self.said = said
        self.tally = tally
        self.form = ""

    def differs(self, kind: str, said: object, came: object) -> None:
        self.tally.differences.append(
            Difference(
                kind=kind,
                file=self.exchange.name,
                pair=f"{self.exchange.protocol} > {self.target}",
                form=self.form,
                said=_shown(said),
                came=_shown(came),
                calling=bool(self.said.calls),
                mute=not self.said.calls and not self.said.text.strip(),
            )
        )

    def asked(self, *, streamed: bool) -> tuple[Object, TranslatedRequest]:
        """The client's question, and as the provider gets it."""
        body = question(self.target, model_of(self.exchange), self.said, streamed=streamed)
        return body, self.translated(body)

    def translated(self, body: Object) -> TranslatedRequest:
        listing = listing_of(self.exchange)
        return translate_request(
            json.dumps(body).encode(),
            source=self.target,
            target=self.exchange.protocol,
            model=model_of(self.exchange),
            vendor=listing.vendor_or_name if listing is not None else None,
            capability_rows=listing.capabilities if listing is not None else (),
        )

    def whole(self, raw: bytes) -> None:
        """A whole answer, to a client that wants it whole and to one that wants a stream."""
        for streamed in (False, True):
            self._whole(raw, streamed=streamed)

    def _whole(self, raw: bytes, *, streamed: bool) -> None:
        source, status = self.exchange.protocol, self.exchange.status
        self.form = "whole as stream" if streamed else "whole"
        body, asked = self.asked(streamed=streamed)
        told = translate_response(raw, source=source, target=self.target, request=asked, status=status, stream=streamed)
        self.tally.translations += 1
        if streamed and not told.failed:
            self.tally.streams += 1
            heard = hear_stream(self.target, told.body)
        else:
            heard = hear_whole(self.target, told.body, told.status if told.failed else 200)
        self.heard(heard, body)

    def stream(self, raw: bytes) -> None:
        """A stream, in one piece, in odd pieces, and to a client that wants the answer whole."""
        body, asked = self.asked(streamed=True)
        told = self._fed(raw, asked, len(raw))
        self.form = "stream"
        self.heard(hear_stream(self.target, told), body)
        for size in _CUTS if len(raw) < _SHORT else _CUTS[2:]:
            self.form = f"stream in pieces of {size}"
            if self._fed(raw, asked, size) != told:
                self.differs("cuts", "the same bytes", "others")
        self._collected(raw)

    def _collected(self, raw: bytes) -> None:
        self.form = "stream as whole"
        body, asked = self.asked(streamed=False)
        source = self.exchange.protocol
        collected = StreamPipeline(source=source, target=self.target, request=asked, collect=True)
        answer = collected.feed(raw) + collected.close()
        self.tally.translations += 1
        self.heard(hear_whole(self.target, answer, collected.status), body)

    def _fed(self, raw: bytes, asked: TranslatedRequest, size: int) -> bytes:
        translator = StreamPipeline(source=self.exchange.protocol, target=self.target, request=asked)
        pieces = [translator.feed(raw[at : at + size]) for at in range(0, len(raw), size)]
        self.tally.translations += 1
        self.tally.streams += 1
        return b"".join(pieces) + translator.close()

    def relay(self) -> None:
        """The same protocol: byte for byte; a whole answer as a stream, and a stream as a whole, say the same."""
        source, raw = self.exchange.protocol, self.exchange.stream
        self.form = "relay"
        if raw is not None:
            for size in (len(raw), 61):
                translator = StreamPipeline(source=source, target=source)
                pieces = [translator.feed(raw[at : at + size]) for at in range(0, len(raw), size)]
                came = b"".join(pieces) + translator.close()
                self.tally.translations += 1
                # A stream that broke off is given its end.
                if came != raw and not (self.said.error == CUT and came.startswith(raw)):
                    self.differs("relays", raw[-80:], came[-80:])
            self._collected(raw)
        elif self.exchange.whole is not None:
            told = translate_response(self.exchange.whole, source=source, target=source, status=self.exchange.status)
            self.tally.translations += 1
            if told.body != self.exchange.whole:
                self.differs("relays", self.exchange.whole[-80:], told.body[-80:])
            if self.exchange.status < 400:
                self._whole(self.exchange.whole, streamed=True)

    def heard(self, heard: Heard, body: Object) -> None:
        """Compare what the client read, then let it answer."""
        # At home the words are the provider's own, whatever this year's types say of them.
        home = self.target == self.exchange.protocol
        if heard.fault is not None and not home:
            self.differs("grammar", "what the SDK's types allow", heard.fault)
        for kind, said, came in compared(self.said, heard.said, home=home):
            self.differs(kind, said, came)
        if heard.said.error is None and heard.body and self.said.error is None:
            self.second(echoed(self.target, body, heard.body), self.said)
            listing = listing_of(self.exchange)
            if (
                not self.said.calls
                and self.said.reasoning
                and listing is not None
                and listing.vendor_or_name in _WANT_ALL
            ):
                asked = question(self.target, model_of(self.exchange), Said(calls=[EARLIER]), streamed=False)
                said = replace(self.said, calls=[EARLIER])
                self.second(echoed(self.target, with_earlier_call(self.target, asked), heard.body), said)

    def second(self, body: Object, said: Said) -> None:
        """The second turn: what the provider finds of its own words."""
        form, self.form = self.form, f"{self.form}, second turn"
        try:
            again = self.translated(body)
        except DragomanError as error:
            self.differs("refused turns", "a second turn", error)
        else:
            self.tally.translations += 1
            value = json.loads(again.body)
            came, results = read_echo(self.exchange.protocol, value)
            for difference in returned(said, came, results, self.exchange.protocol):
                self.differs(*difference)
        self.form = form


def journeys(exchange: Exchange) -> Tally:
    """Everything that one exchange can show."""
    tally = Tally()
    said = _read(exchange)
    for target in PROTOCOLS:
        one = _Journey(exchange, target, said or Said(), tally)
        try:
            # What the provider itself refused need not be understood.
            if exchange.request is not None and target != exchange.protocol and exchange.status < 400:
                _request(one, exchange.request)
            if said is None:
                continue
            if target == exchange.protocol:
                one.relay()
            elif exchange.stream is not None:
                one.stream(exchange.stream)
            elif exchange.whole is not None:
                one.whole(exchange.whole)
        except DragomanError as error:
            one.differs("refusals", "a translation", f"{type(error).__name__}: {error}")
        except Exception as error:  # the outer edge: a crash is what the replay looks for
            one.differs("crashes", "a translation", f"{type(error).__name__}: {error}")
    return tally


def _request(one: _Journey, body: Object) -> None:
    """A recorded request, for a provider of another protocol."""
    one.form = "request"
    one.tally.translations += 1
    try:
        # Some addresses name the model instead.
        named = json.dumps({**body, "model": body.get("model") or model_of(one.exchange)}).encode()
        told = translate_request(named, source=one.exchange.protocol, target=one.target)
    except DragomanError as error:
        one.differs("refused requests", "a translation", error)
        return
    try:
        check_request(one.target, json.loads(told.body), told.headers)
    except AssertionError as error:
        one.differs("requests", "what the SDK's types allow", error)


def _read(exchange: Exchange) -> Said | None:
    if exchange.stream is not None:
        return read_stream(exchange.protocol, exchange.stream)
    if exchange.whole is None:
        return None
    if exchange.status >= 400:
        return read_failure(exchange.whole)
    body = json.loads(exchange.whole)
    return read_whole(exchange.protocol, body) if isinstance(body, dict) else None


def model_of(exchange: Exchange) -> str:
    """The model that was asked, else the one that answered."""
    name = member(exchange.request, "model")
    if not name and exchange.whole is not None:
        name = member(json.loads(exchange.whole), "model")
    if not name and exchange.stream is not None:
        found = re.search(rb'"model": ?"([^"]+)"', exchange.stream)
        name = found[1].decode() if found else ""
    return text_of(name) or "a-model"


@cache
def _hosts() -> dict[str, CatalogueEntry]:
    hosts: dict[str, CatalogueEntry] = {}
    for listing in catalogue().values():
        for endpoint in listing.endpoints:
            host = urlsplit(endpoint.base_url).hostname
            if host and "{" not in endpoint.base_url:
                hosts.setdefault(host, listing)
    return hosts


def listing_of(exchange: Exchange) -> CatalogueEntry | None:
    """Who answered, of those that the catalogue knows: by the address, else by a word of the file's name."""
    known = catalogue()
    if exchange.host:
        if exchange.host.endswith(".azure.com"):
            return known["azure" if exchange.protocol != MESSAGES else "azure-anthropic"]
        return _hosts().get(exchange.host)
    words = [word for part in PurePosixPath(exchange.file).parts for word in (part, *re.split(r"[-_.]", part))]
    return next((known[word] for word in words if word in known), None)


def compared(said: Said, came: Said, *, home: bool = False) -> Iterator[tuple[str, object, object]]:
    """What differs between a recorded answer and what a client read of it; at home its own end will do."""
    if said.error is not None or came.error is not None:
        wanted = said.error or ""
        if (
            said.error is None
            or came.error is None
            or (wanted != CUT and _squeezed(wanted) not in _squeezed(came.error))
        ):
            yield "errors", said.error, came.error
        return
    if not said.shortened and not _same_text(said, came):
        yield "texts", said.text, came.text
    if _squeezed(said.reasoning) != _squeezed(came.reasoning):
        yield "reasonings", said.reasoning, came.reasoning
    calls = [call for call in came.calls if call.id not in said.vendor]
    if _unnamed(said.calls) != _unnamed(calls):
        yield "calls", said.calls, calls
    elif any(told.id and told.id != call.id for told, call in zip(said.calls, calls, strict=True)):
        yield "ids", [call.id for call in said.calls], [call.id for call in calls]
    ended = CALLS if said.calls and said.end in (STOP, CALLS) else said.end
    if home and came.end == said.end:
        ended = said.end
    if ended is not None and ended != came.end and not (said.refused and came.end == FILTERED):
        yield "ends", ended, came.end
    if said.counts is not None and _plain(said.counts) != _plain(came.counts):
        yield "usages", said.counts, came.counts


def returned(said: Said, came: Said, results: list[str], protocol: str) -> Iterator[tuple[str, object, object]]:
    """What a provider does not find again of its own answer."""
    texts = {_squeezed(said.text), _squeezed(said.text.removesuffix(said.beside))}
    if not said.shortened and _squeezed(came.text) not in texts:
        yield "second texts", said.text, came.text
    calls = [call for call in came.calls if call.id not in said.vendor]
    answered = [one for one in results if one not in said.vendor]
    if not _same_calls(said.calls, calls):
        yield "second calls", said.calls, calls
    elif [call.id for call in calls] != answered:
        yield "second results", [call.id for call in calls], answered
    # Servers of Chat ask for their reasoning beside calls; the others for whatever they sealed.
    demanded = bool(said.calls) if protocol == CHAT else bool(said.seals)
    if demanded and any(seal not in came.seals for seal in said.seals):
        yield "second seals", said.seals, came.seals
    if demanded and _squeezed(said.reasoning) != _squeezed(came.reasoning):
        yield "second reasonings", said.reasoning, came.reasoning


def _same_text(said: Said, came: Said) -> bool:
    """Whether all text came, in order, with nothing but an empty line between two blocks."""
    return (
        said.text == came.text
        or re.fullmatch(r"(?:\n\n)?".join(re.escape(text) for text in said.texts if text), came.text) is not None
    )


def _unnamed(calls: list[Call]) -> list[tuple[str, object]]:
    return [(call.name, call.arguments) for call in calls]


def _same_calls(said: list[Call], came: list[Call]) -> bool:
    """Whether a provider finds its calls again; one that it gave no id has whichever was made up."""
    return _unnamed(said) == _unnamed(came) and all(
        told.id in ("", call.id) for told, call in zip(said, came, strict=True)
    )


def _plain(counts: Counts | None) -> tuple[int | None, int | None, int]:
    return (None, None, 0) if counts is None else (counts.input, counts.output, counts.cached or 0)


def _squeezed(text: str) -> str:
    return "".join(text.split())


def _shown(value: object) -> str:
    return value if isinstance(value, str) else repr(value)
