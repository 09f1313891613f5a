"""Rejected reasoning: detects that a provider rejected a request for its reasoning, and selects the remedy (V11).

SEALS    a signature in the history was rejected: retry without the signatures
LOOP     turns lack the reasoning that thinking requires: retry with a placeholder, or without thinking
CALLS    a call lacks its signature: retry with the placeholder for a missing signature

Only wordings that were observed count: a retry without reasoning for another reason would be a needless loss."""

from __future__ import annotations

import re
from enum import Enum
from itertools import islice

from dragoman.model.failure import Failure
from dragoman.wire.json import encode_text


class Remedy(Enum):
    SEALS = "seals"
    LOOP = "loop"
    CALLS = "calls"

    @property
    def tries(self) -> int:
        """Maximum retries. Not every server accepts a placeholder for missing reasoning."""
        return 2 if self is Remedy.LOOP else 1


_CODE = "invalid_encrypted_content"
# Proxies report a rejection under other statuses (403 for a foreign signature, 422, 5xx), and an error in a stream has
# only a guessed one. A key error (401) or a rate limit (429) never means rejected signatures.
_STATUSES = frozenset({400, 403, 404, 409, 422, 500, 502, 503})

# Observed wordings and their servers. Names may be quoted in backticks, and a text may be inside another server's
# error.
_WORDINGS: tuple[tuple[Remedy, str, str], ...] = (
    (
        Remedy.SEALS,
        r"invalid\W{1,4}(?:signature|data)\W{1,4}in\W{1,4}(?:redacted_)?thinking\b",
        # Anthropic, and Bedrock, Vertex and Copilot for its models.
        "https://github.com/can1357/oh-my-pi/pull/333",
    ),
    (
        Remedy.SEALS,
        # Unsigned thinking, or signed thinking that lost its empty text.
        r"thinking\.(?:signature|thinking|data)\W{1,4}field required",
        "https://github.com/lbjlaq/Antigravity-Manager/issues/1650, https://github.com/LibreChat-AI/agents/pull/279",
    ),
    (
        Remedy.SEALS,
        r"thinking\W{0,3} blocks?\b.{0,80}\bcannot be modified",
        "https://github.com/anthropics/claude-code/issues/63404",
    ),
    (
        Remedy.SEALS,
        # OpenAI, Azure, Copilot, Novita. The code may be missing.
        r"encrypted[ _]content\b.{0,200}\bcould not be (?:verified|decrypted|decoded|parsed)",
        "https://github.com/experientiallabs/experiential/pull/972",
    ),
    (Remedy.SEALS, r"encrypted content organization_id did not match", "https://github.com/openai/codex/issues/13724"),
    (
        Remedy.SEALS,
        # xAI, as a bare string.
        r"could not (?:decrypt|decode|verify|parse)\b.{0,40}\bencrypted[ _]content",
        "https://github.com/Wei-Shaw/sub2api/issues/4535",
    ),
    (
        Remedy.SEALS,
        # xAI too. It uses the same text for reasoning and compaction.
        r"could not decode the compaction blob",
        "https://github.com/chenyme/grok2api/issues/688",
    ),
    (
        Remedy.SEALS,
        r"encrypted[ _]content\W{0,3} was not issued to this caller",
        "https://github.com/anomalyco/opencode/issues/48773",
    ),
    (
        Remedy.SEALS,
        # Reasoning referenced by its ID, stored by another account or not at all.
        r"item with id \W?rs_[^ ]{1,200} not found",
        "https://github.com/can1357/oh-my-pi/issues/41",
    ),
    (
        Remedy.SEALS,
        # Item IDs of another server: Copilot's have hundreds of characters, others have other prefixes.
        r"invalid \W?input\[\d{1,6}\]\.id\W.{0,300}?(?:string too long|expected an id that begins with)",
        "https://github.com/can1357/oh-my-pi/issues/284, https://github.com/jlcodes99/cockpit-tools/issues/2090",
    ),
    (
        Remedy.SEALS,
        r"of type \W?reasoning\W? was provided without its required following item",
        "https://github.com/continuedev/continue/issues/8933",
    ),
    (
        Remedy.SEALS,
        r"was provided without its required \W?reasoning\W? item",
        "https://github.com/0xPlaygrounds/rig/issues/751",
    ),
    (
        Remedy.SEALS,
        r"corrupted thought signature|thought signature is not valid",
        "https://github.com/google-gemini/gemini-cli/issues/13467, https://github.com/decolua/9router/issues/301",
    ),
    (
        Remedy.CALLS,
        r"function call\b.{0,200}\bis missing a \W?thought_signature",
        "https://github.com/pydantic/pydantic-ai/issues/3881, https://github.com/manthanabc/paws/issues/103",
    ),
    (
        Remedy.LOOP,
        r"expected \W?thinking\W? or \W?redacted_thinking\W?, but found",
        "https://github.com/anomalyco/opencode/issues/3077",
    ),
    (
        Remedy.LOOP,
        # DeepSeek on its Messages endpoint.
        r"content\[\]\.thinking\W{0,3} in the thinking mode must be passed back",
        "https://github.com/decolua/9router/issues/2397",
    ),
    (
        Remedy.LOOP,
        # DeepSeek on Chat, now and before.
        r"reasoning_content\W{0,3} in the thinking mode must be passed|missing \W?reasoning_content\W? field in",
        "https://github.com/earendil-works/pi/issues/3636, https://github.com/decolua/9router/issues/355",
    ),
    (
        Remedy.LOOP,
        # Moonshot.
        r"thinking is enabled but \W?reasoning_content\W? is missing",
        "https://github.com/mastra-ai/mastra/issues/12592",
    ),
)
_SEARCHES = tuple(
    (
        remedy,
        re.compile(
            "|".join([words for of, words, _ in _WORDINGS if of is remedy] + [_CODE] * (remedy is Remedy.SEALS)),
            re.IGNORECASE | re.DOTALL,
        ).finditer,
    )
    for remedy in Remedy
)
# A rejection states its reason at the start. The rest may be as long as the request.
_LOOKED_THROUGH = 16 * 1024


# The start of a quotation. Backticks enclose names.
_find_quotes = re.compile(r"(?:^|(?<=[\s(\[{:=,]))[\"'\u201c\u00ab]").finditer


def remedy_for(failure: Failure, request_body: bytes = b"") -> Remedy | None:
    """The remedy for a failure that rejects reasoning. An error that only quotes `request_body` has none."""
    if failure.status not in _STATUSES:
        return None
    if failure.code == _CODE:
        return Remedy.SEALS
    message = failure.message[:_LOOKED_THROUGH]
    for remedy, matches in _SEARCHES:
        if any(not _is_quoted(message, match, request_body) for match in islice(matches(message), _MAX_MATCHES)):
            return remedy
    return None


def _is_quoted(message: str, match: re.Match[str], request_body: bytes) -> bool:
    """Whether a match is inside a quotation that is literally part of the request."""
    if not request_body:
        return False
    opened = [quote.end() for quote in _find_quotes(message, max(0, match.start() - _MAX_QUOTE_LENGTH), match.start())]
    if not opened:
        return False
    quoted = encode_text(message[opened[-1] : match.end()].encode("utf-8", "replace").decode())[1:-1]
    return quoted.encode() in request_body or _in_ascii(quoted).encode() in request_body


def _in_ascii(text: str) -> str:
    return _BEYOND.sub(lambda char: re.sub("(....)", r"\\u\1", char[0].encode("utf-16-be").hex()), text)


_BEYOND = re.compile(r"[^\x00-\x7f]")
_MAX_QUOTE_LENGTH = 1024
_MAX_MATCHES = 8
