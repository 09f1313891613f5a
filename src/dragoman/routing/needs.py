"""Requirements of a request: what routing reads of it before a target is selected."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Never

from msgspec import Struct

from dragoman.model.losses import Strict
from dragoman.model.request_features import RequestFeatures

# Bytes per token of a request: usual, and the maximum for any text.
BYTES_PER_TOKEN = 4
MAX_BYTES_PER_TOKEN = 8
# Maximum bytes of media per token.
MEDIA_BYTES_PER_TOKEN = 1000
DEFAULT_OUTPUT_TOKENS = 256
# A shared empty mapping, so that requests allocate none.
NOTHING: Mapping[str, Never] = MappingProxyType({})
_NO_FEATURES = RequestFeatures()


class RequiredFeatures(Struct, frozen=True):
    request_features: bool = False
    conversation_start: bool = False
    losses: bool = False
    issuer: bool = False


class LossCounts(Struct, frozen=True):
    """The number of losses of a translation: losses that change the response, and all."""

    changes: int = 0
    all: int = 0

    def refused_by(self, strict: Strict) -> bool:
        return bool(strict) and (self.all if strict == "all" else self.changes) > 0


class Requirements(Struct, frozen=True):
    # Bytes of its body, including referenced items.
    size: int
    request_features: RequestFeatures = _NO_FEATURES
    # The client's protocol and program, and the name of its gateway key.
    protocol: str = ""
    program: str = ""
    key: str = ""
    strict: Strict = False
    # The losses of each target's translation, by ID, if a policy needs them.
    losses: Mapping[str, LossCounts] = NOTHING
    # The reasons why targets cannot be called at all, by target ID.
    refused: Mapping[str, str] = NOTHING
    # Whether only one target may be called, because the owner of its references is unknown.
    alone: bool = False
    # The ID of the target that signed its latest reasoning, which no other target can read.
    issuer: str = ""
    # The name of the client, and the class of its thread, if rules need them.
    client: str = ""
    thread: str = ""
    # The provider that stores the referenced items.
    storing_provider: str = ""
    # Whether only targets with the model of the first one may be called.
    same_model: bool = False
    # The ID of the target that has the conversation in its prompt cache.
    warm: str = ""
    # The expected output tokens, measured for requests of its size.
    output: int = DEFAULT_OUTPUT_TOKENS

    @property
    def tokens(self) -> int:
        return max(self.size - self.request_features.media, 0) // BYTES_PER_TOKEN

    @property
    def paid(self) -> int:
        """The approximate number of billed tokens. Media count little here, because only their provider knows how
        many."""
        return self.tokens + self.request_features.media // MEDIA_BYTES_PER_TOKEN

    @property
    def expected_output(self) -> int:
        """The expected output tokens, limited by the request's maximum."""
        max_output = self.request_features.max_output
        return self.output if max_output is None else min(self.output, max(max_output, 0))
