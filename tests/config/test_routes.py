"""`[models]`: names, patterns and where they go."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.config.settings import RouteConfig, RouteRule
from dragoman.routing.route import RuleCondition
from tests.config.support import problems_of, settings_of

KEY = {"OPENAI_API_KEY": "sk-1"}
NEITHER = "expected provider/model or the name of another route, got"


def test_lines_keep_their_order(tmp_path: Path) -> None:
    text = """
[models]
"gpt-5.1" = "openai/gpt-5.1"
"fast-*" = "openai/gpt-*-mini"
"local/*" = "echo/*"
"exact" = { to = "openai/org/model:free", strict = "all" }
all = "echo/text"
"""
    assert settings_of(tmp_path, text, KEY).routes == (
        RouteConfig(pattern="gpt-5.1", targets=("openai/gpt-5.1",)),
        RouteConfig(pattern="fast-*", targets=("openai/gpt-*-mini",)),
        RouteConfig(pattern="local/*", targets=("echo/*",)),
        RouteConfig(pattern="exact", targets=("openai/org/model:free",), strict="all"),
        RouteConfig(pattern="all", targets=("echo/text",)),
    )


def test_a_target_may_ask_for_a_protocol_of_its_provider(tmp_path: Path) -> None:
    text = '[models]\n"gpt-*" = "openai/*@openai-chat"\nold = "echo/text@anthropic-messages"\nv = "openai/m@20250805"\n'
    found = [line.targets for line in settings_of(tmp_path, text, KEY).routes]
    assert found == [("openai/*@openai-chat",), ("echo/text@anthropic-messages",), ("openai/m@20250805",)]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('"a" = "openia/x"', 'models.a: names the provider "openia", which is not set up (did you mean openai?)'),
        (
            '"a" = "zzz/x"',
            'models.a: names the provider "zzz", which is not set up (known are openai, echo; others',
        ),
        (
            '"a" = "claude/claude-opus-9"',
            'models.a: names the provider "claude", which is not set up (did you mean anthropic? Then '
            "add [providers.anthropic] or export ANTHROPIC_API_KEY=…)",
        ),
        (
            '"a" = "claude/mine"',
            'models.a: names the provider "claude", which is not set up (did you mean anthropic? Then add '
            "[providers.anthropic] or export ANTHROPIC_API_KEY=…)",
        ),
        ('"a" = "codex/gpt-9"', 'models.a: names the provider "codex", which is not set up (did you mean openai?)'),
        (
            '"a" = "anthropics/x"',
            'models.a: names the provider "anthropics", which is not set up (did you mean anthropic?',
        ),
        (
            '"a" = "openai/x@anthropic-messages"',
            "models.a: names the protocol anthropic-messages, which openai does not speak (it speaks openai-responses, "
            "openai-chat)",
        ),
        (
            '"a" = ["openai/x@openai-chat", "openai/x"]',
            'models.a[1]: names "openai/x" once more (remove it; retries repeats the call to the same target)',
        ),
        ('"a" = {}', 'models.a: is an empty table (example: to = "openai/gpt-5.1")'),
        ('"a" = "docker/x"', 'models.a: names the provider "docker", which is not set up (add [providers.docker])'),
        ('"a" = "x"', f'models.a: {NEITHER} "x" (example: "openai/gpt-5.1")'),
        ('"a" = "openai/"', f'models.a: {NEITHER} "openai/" (example: "openai/gpt-5.1")'),
        ('"a" = "openai/x y"', f'models.a: {NEITHER} "openai/x y" (example: "openai/gpt-5.1")'),
        ('"*" = ""', f'models."*": {NEITHER} "" (example: "openai/gpt-5.1")'),
        (
            '"a" = 1',
            'models.a: expected a string, an array of strings or a table, got an integer (example: "claude-*"',
        ),
        (
            'gpt-5.1 = "openai/x"',
            'models.gpt-5: is a table without to and targets (put names with dots in quotes: "gpt-5.1" = …)',
        ),
        ('"a*b*" = "openai/x"', 'models."a*b*": has more than one * on a side (keep one)'),
        ('"a*" = "openai/**"', 'models."a*": has more than one * on a side (keep one)'),
        ('"a" = "openai/*"', "models.a: has a * in its target alone"),
        ('"a b" = "openai/x"', 'models."a b": expected a model name'),
        ('"" = "openai/x"', 'models."": expected a model name'),
        ('"a" = { strict = true }', 'models.a.to: is missing (example: to = "openai/gpt-5.1")'),
        ('"a" = { to = "openai/x", strikt = true }', "models.a.strikt: is not a known key (did you mean strict?)"),
        ('"a" = { to = 1 }', "models.a.to: expected a string, got an integer"),
        ('"a" = []', "models.a: expected at least one string, got an empty array"),
        ('"a" = ["echo/x", 1]', "models.a: expected a string, got an integer"),
        ('"a" = ["echo/x", "openia/x"]', 'models.a[1]: names the provider "openia", which is not set up (did you mean'),
        ('"a" = ["echo/x", "echo/*"]', "models.a[1]: has a * in its target alone (put one into the name, too, or"),
        (
            '"a" = ["echo/x", "echo/x"]',
            'models.a[1]: names "echo/x" once more (remove it; retries repeats the call to the same target)',
        ),
        (
            '"a" = { to = "echo/x", targets = ["echo/y"] }',
            "models.a.targets: stands beside to (keep one of them, to for one target)",
        ),
        ('"a" = { targets = [] }', "models.a.targets: expected at least one string, got an empty array (example:"),
        ('"a" = { targets = {} }', "models.a.targets: expected at least one target, got an empty table (example:"),
        (
            '"a" = { targets = "echo/x" }',
            "models.a.targets: expected an array of targets, or a table of weights, got a string",
        ),
        (
            '"a" = { to = "echo/x", policy = "cheepest" }',
            "models.a.policy: expected one of fallback, weighted, round-robin, cheapest, fastest, least-loss, got "
            '"cheepest" (did you mean cheapest?)',
        ),
        (
            '"a" = { policy = "wieghted", targets = { "echo/x" = 1 } }',
            "models.a.policy: expected one of fallback, weighted, round-robin, cheapest, fastest, least-loss, got "
            '"wieghted" (did you mean weighted?)',
        ),
        ('"a" = { to = "echo/x", policy = 1 }', "models.a.policy: expected a string, got an integer"),
        (
            '"a" = { policy = "cheapest", targets = { "echo/x" = 1 } }',
            'models.a.targets: has weights, which cheapest does not use (write an array, or policy = "weighted")',
        ),
        (
            '"a" = { targets = { "echo/x" = 1 } }',
            'models.a.targets: has weights, which fallback does not use (write an array, or policy = "weighted")',
        ),
        (
            '"a" = { policy = "weighted", targets = ["echo/x"] }',
            "models.a.targets: has no weights (example:",
        ),
        (
            '"a" = { policy = "weighted", targets = { "echo/x" = 0.5 } }',
            'models.a.targets: for "echo/x": expected an integer from 0 to 1000000, got a float (example: targets = {',
        ),
        (
            '"a" = { policy = "weighted", targets = { "echo/x" = -1, "echo/y" = 2 } }',
            'models.a.targets: for "echo/x": expected an integer from 0 to 1000000, got -1',
        ),
        (
            '"a" = { policy = "weighted", targets = { "echo/x" = true } }',
            'models.a.targets: for "echo/x": expected an integer from 0 to 1000000, got a boolean',
        ),
        (
            '"a" = { policy = "weighted", targets = { "echo/x" = 0, "echo/y" = 0 } }',
            'models.a.targets: expected a weight above 0, got none (example: targets = { "a/m" = 80, ',
        ),
        (
            '"a" = { policy = "weighted", targets = { "ecko/x" = 1 } }',
            'models.a.targets."ecko/x": names the provider "ecko", which is not set up (did you mean echo?)',
        ),
        ('"a" = { to = "echo/x", retries = 6 }', "models.a.retries: expected an integer from 0 to 5, got 6"),
        ('"a" = { to = "echo/x", retries = -1 }', "models.a.retries: expected an integer from 0 to 5, got -1"),
        ('"a" = { to = "echo/x", first_byte = "20 x" }', "models.a.first_byte: expected a duration with a unit of"),
        ('"a" = { to = "echo/x", first_byte = 0 }', "models.a.first_byte: expected a duration from 0.001 s"),
        (
            '"a" = { to = "echo/x", max_cost = "5 ct" }',
            "models.a.max_cost: expected US dollars as a number, got a string",
        ),
        ('"a" = { to = "echo/x", max_cost = -1 }', "models.a.max_cost: expected US dollars from 0 to 1000000, got"),
        ('"a" = { to = "echo/x", max_cost = nan }', "models.a.max_cost: expected US dollars from 0 to 1000000, got"),
        ('"a" = { to = "echo/x", max_cost = true }', "models.a.max_cost: expected US dollars as a number"),
        ('"a" = { to = "echo/x", sticky = "no" }', "models.a.sticky: expected a boolean"),
        (
            '"a" = { to = "echo/x", fallback_on_refusal = 1 }',
            "models.a.fallback_on_refusal: expected a boolean",
        ),
        (
            '"a" = { to = "echo/x", rules = {} }',
            "models.a.rules: expected an array of tables, got a table (begin a line",
        ),
        ('"a" = { to = "echo/x", rules = [1] }', "models.a.rules[0]: expected a table, got an integer"),
        (
            '"a" = { to = "echo/x", rules = [{ to = "echo/y" }] }',
            "models.a.rules[0].when: is missing (example: when = { input_tokens_over = 60_000 })",
        ),
        (
            '"a" = { to = "echo/x", rules = [{ when = {}, to = "echo/y" }] }',
            "models.a.rules[0].when: expected at least one condition, got an empty table, which every request "
            "would match",
        ),
        (
            '"a" = { to = "echo/x", rules = [{ when = true, to = "echo/y" }] }',
            "models.a.rules[0].when: expected a table, got a boolean",
        ),
        (
            '"a" = { to = "echo/x", rules = [{ when = { inputtokensover = 1 }, to = "echo/y" }] }',
            "models.a.rules[0].when.inputtokensover: is not a known key (did you mean input_tokens_over?)",
        ),
        (
            '"a" = { to = "echo/x", rules = [{ when = { input_tokens_over = "1" }, to = "echo/y" }] }',
            'models.a.rules[0].when.input_tokens_over: expected an integer from 0 to 1000000000, got the string "1"',
        ),
        (
            '"a" = { to = "echo/x", rules = [{ when = { tools = true } }] }',
            'models.a.rules[0].to: is missing (example: to = "openai/gpt-5.1")',
        ),
        (
            '"a" = { to = "echo/x", rules = [{ when = { tools = true }, to = "echo/y", policy = "cheapest" }] }',
            "models.a.rules[0].policy: is not a known key",
        ),
        (
            '"a" = { to = "echo/x", rules = [{ when = { tools = true }, to = "echo/y" }, '
            '{ when = { tools = true }, to = "echo/z" }] }',
            "models.a.rules[1].when: has the same conditions as an earlier rule, which goes first (remove one of them",
        ),
        (
            '"a" = { to = "echo/x", rules = [{ when = { tools = true }, targets = ["ecko/y"] }] }',
            'models.a.rules[0].targets[0]: names the provider "ecko", which is not set up (did you mean echo?)',
        ),
        (
            '"a" = { to = "echo/x", rules = [{ when = { tools = true }, targets = { "echo/y" = 1 } }] }',
            "models.a.rules[0].targets: has weights, which fallback does not use",
        ),
        (
            '"a" = { to = "echo/x", rules = [{ when = { key = "laptop" }, to = "echo/y" }] }',
            'models.a.rules[0].when.key: names the key "laptop", which does not exist (add [keys.laptop])',
        ),
        (
            '"a" = { to = "echo/x", rules = [{ when = { thread = "subagents" }, to = "echo/y" }] }',
            'models.a.rules[0].when.thread: names the thread class "subagents", which does not exist '
            '(did you mean "subagent"?)',
        ),
        (
            '"a" = { to = "echo/x", rules = [{ when = { thread = "zzz" }, to = "echo/y" }] }',
            'models.a.rules[0].when.thread: names the thread class "zzz", which does not exist '
            "(write one of main, subagent,",
        ),
        ('"a" = "a"', "models.a: leads back to itself: a → a (take one of them out of the circle)"),
        ('"a*" = { to = "echo/x", rules = [{ when = { tools = true }, to = "ab" }] }', 'models."a*": leads back to'),
    ],
)
def test_a_line_that_cannot_be_used_has_its_place(tmp_path: Path, line: str, problem: str) -> None:
    (told,) = problems_of(tmp_path, f"[models]\n{line}\n", KEY)
    assert told.startswith(f"2: {problem}")


def test_a_provider_that_cannot_be_used_is_not_told_of_twice(tmp_path: Path) -> None:
    (told,) = problems_of(tmp_path, '[providers.openai]\napi_key = 1\n[models]\na = "openai/x"\n')
    assert told.startswith("2: providers.openai.api_key: expected a string")


SEVERAL = """
[keys.laptop]
key = "0123456789abcdef"
[models]
"smart"    = ["anthropic/claude-opus-5", "openai/gpt-5.1"]
"cheap"    = { policy = "cheapest", targets = ["echo/text", "openai/gpt-5-mini"], max_cost = 0.05 }
"split"    = { policy = "weighted", targets = { "echo/a" = 80, "echo/b" = 0 }, sticky = false }
"patient"  = { targets = ["echo/text"], retries = 3, first_byte = "20 s", fallback_on_refusal = true }
"all"      = { policy = "round-robin", targets = ["smart", "claude-haiku-9"] }
"openai/x" = ["openai/x", "echo/text"]
[models."claude-*"]
to = "anthropic/*"
[[models."claude-*".rules]]
when = { input_tokens_over = 60_000, key = "laptop" }
to = "openai/gpt-5.1"
[[models."claude-*".rules]]
when = { tools = false, client = "codex" }
targets = ["echo/*", "smart"]
"""


def test_a_line_says_where_it_leads_and_how(tmp_path: Path) -> None:
    assert settings_of(tmp_path, SEVERAL, {**KEY, "ANTHROPIC_API_KEY": "sk-2"}).routes == (
        RouteConfig(pattern="smart", targets=("anthropic/claude-opus-5", "openai/gpt-5.1")),
        RouteConfig(
            pattern="cheap", targets=("echo/text", "openai/gpt-5-mini"), policy="cheapest", max_cost=50_000_000
        ),
        RouteConfig(pattern="split", targets=("echo/a", "echo/b"), policy="weighted", weights=(80, 0), sticky=False),
        RouteConfig(pattern="patient", targets=("echo/text",), retries=3, first_byte=20.0, fallback_on_refusal=True),
        RouteConfig(pattern="all", targets=("smart", "claude-haiku-9"), policy="round-robin"),
        RouteConfig(pattern="openai/x", targets=("openai/x", "echo/text")),
        RouteConfig(
            pattern="claude-*",
            targets=("anthropic/*",),
            rules=(
                RouteRule(when=RuleCondition(input_tokens_over=60_000, key="laptop"), targets=("openai/gpt-5.1",)),
                RouteRule(when=RuleCondition(tools=False, client="codex"), targets=("echo/*", "smart")),
            ),
        ),
    )


def test_a_problem_stands_on_the_line_of_its_target(tmp_path: Path) -> None:
    text = """[models]
smart = [
  "echo/text",
  "openia/gpt",
]
[[models.smart2.rules]]
when = { tools = true }
to = "smrt"
[models.other]
targets = [
  "smart",
  "other-*",
]
"""
    assert problems_of(tmp_path, text, KEY) == [
        '4: models.smart[1]: names the provider "openia", which is not set up (did you mean openai?)',
        '6: models.smart2.to: is missing (example: to = "openai/gpt-5.1")',
        f'8: models.smart2.rules[0].to: {NEITHER} "smrt" (did you mean smart?)',
        "12: models.other.targets[1]: has a * in its target alone (put one into the name, too, or name the model)",
    ]


def test_a_line_is_named_without_a_star(tmp_path: Path) -> None:
    (told,) = problems_of(tmp_path, '[models]\n"a-*" = "echo/*"\n"b-*" = "a-*"\n')
    assert told == '3: models."b-*": has a * in the name of a route (write provider/model there)'


def test_a_gateway_key_of_the_command_line_may_be_named(tmp_path: Path) -> None:
    text = 'a = { to = "echo/x", rules = [{ when = { key = "KEY" }, to = "echo/y" }] }\n[keys.laptop]\nkey = "KEY"\n'
    (line,) = settings_of(tmp_path, "[models]\n" + text.replace("KEY", "launch", 1)).routes
    assert line.rules[0].when.key == "launch"
    (told,) = problems_of(tmp_path, "[models]\n" + text.replace("KEY", "labtop", 1))
    assert told.endswith("(did you mean laptop?)")
