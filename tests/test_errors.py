"""Errors name the place and both sides."""

from __future__ import annotations

from dragoman.errors import DragomanError, RefusedError, StrictError, WireError
from dragoman.model.features import Feature
from dragoman.model.losses import Fate, Loss


def test_a_wire_error_says_where_and_what() -> None:
    error = WireError("/messages/2/content/0/text", "string", "number")
    assert str(error) == "/messages/2/content/0/text: expected string, found number"
    assert str(WireError("", "object", "array")) == "/: expected object, found array"


def test_a_refusal_says_what_cannot_be_said() -> None:
    assert str(RefusedError("audio", "messages[0].parts[1]", "no audio")) == "messages[0].parts[1]: no audio"
    assert str(RefusedError("audio", "", "no audio")) == "no audio"


def test_strict_mode_names_every_loss() -> None:
    losses = (
        Loss(Fate.DROPPED, Feature.PENALTIES, "sampling.seed", "no seed"),
        Loss(Fate.INVENTED, Feature.MAX_TOKENS, "max_tokens", "required"),
    )
    error = StrictError(losses)
    assert error.losses == losses
    assert str(error).startswith("2 losses refused: sampling.seed: dropped (penalties) no seed; max_tokens: invented")
    assert str(StrictError(losses[:1])).startswith("1 loss refused")


def test_all_are_one_family() -> None:
    assert all(issubclass(kind, DragomanError) for kind in (WireError, RefusedError, StrictError))
