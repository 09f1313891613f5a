"""Errors name the place and both sides."""

from __future__ import annotations

from dragoman.errors import ConfigError, ConfigErrors, DragomanError, RefusedError, StrictError, WireError
from dragoman.model.features import Feature
from dragoman.model.losses import Fate, Loss


def test_a_wire_error_says_where_and_what() -> None:
    error = WireError("/messages/2/content/0/text", "string", "number")
    assert str(error) == "messages[2].content[0].text: expected text, found a number"
    assert error.path == "/messages/2/content/0/text"
    assert str(WireError("", "object", "array")) == "expected an object, found a list"
    assert WireError("", "object", "array").describe("the body") == "the body: expected an object, found a list"
    assert (
        str(WireError("/a~1b/c~0d", "string or array", "nothing")) == "a/b.c~d: expected text or a list, found nothing"
    )
    assert str(WireError("", "JSON", "it is empty")) == "this is not JSON: it is empty"


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


def test_a_setting_that_cannot_be_used_has_its_place_and_a_remedy() -> None:
    error = ConfigError(key="server.port", problem="is missing", remedy="add it", file="a.toml", line=3)
    assert str(error) == "a.toml:3: server.port: is missing (add it)"
    assert str(ConfigError(key="", problem="is empty", remedy="fill it", file="a.toml")) == "a.toml: is empty (fill it)"


def test_several_settings_have_a_line_each_and_the_first_stands_for_all() -> None:
    first = ConfigError(key="a", problem="is wrong", remedy="mend it", file="a.toml", line=1)
    errors = ConfigErrors([first, ConfigError(key="b", problem="is odd", remedy="even it")])
    assert str(errors) == "a.toml:1: a: is wrong (mend it)\nb: is odd (even it)"
    assert (errors.key, errors.problem, errors.remedy, errors.file, errors.line) == (
        "a",
        "is wrong",
        "mend it",
        "a.toml",
        1,
    )
    assert errors.problems[0] is first


def test_all_are_one_family() -> None:
    assert all(issubclass(kind, DragomanError) for kind in (WireError, RefusedError, StrictError))
