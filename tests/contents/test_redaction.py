"""Redaction: every form of a credential is replaced, wherever and however it is written."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.contents.redaction import ContentsRedactor
from tests.contents.fakes import FAKES
from tests.step_counting import count_steps

CASES = [(kind, text, credential) for kind, fakes in FAKES.items() for text, credential in fakes]
NAMES = [f"{kind}-{number}" for kind, fakes in FAKES.items() for number in range(len(fakes))]
each_fake = pytest.mark.parametrize(("kind", "text", "credential"), CASES, ids=NAMES)
# Ends after which nothing of a credential is left that is worth anything.
_CORE = 12


def _core(credential: str) -> str:
    return credential[-_CORE:] if "PRIVATE" not in credential else "MIIEvQIBADANBgkq"


def clean(text: str, redactor: ContentsRedactor | None = None) -> str:
    return (redactor or ContentsRedactor()).clean(text.encode()).decode()


@each_fake
def test_a_credential_in_plain_text(kind: str, text: str, credential: str) -> None:
    cleaned = clean(f"before {text}\nafter")
    assert _core(credential) not in cleaned
    assert f"[redacted:{kind}:{len(credential)}]" in cleaned
    assert cleaned.startswith("before ") and cleaned.endswith("after")


@each_fake
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_a_credential_in_json_within_json(kind: str, text: str, credential: str, depth: int) -> None:
    value: object = {"output": f"line\n{text}\n"}
    for _ in range(depth):
        document = json.dumps({"messages": [{"content": value}]})
        value = document
    cleaned = clean(document)
    assert _core(credential) not in cleaned.replace("\\", "").replace("n" + _core(credential), _core(credential))
    assert f"[redacted:{kind}:" in cleaned
    unpacked = json.loads(cleaned)
    for _ in range(depth - 1):
        unpacked = json.loads(unpacked["messages"][0]["content"])
    assert unpacked["messages"][0]["content"]["output"].startswith("line\n")


@each_fake
@pytest.mark.parametrize("form", ["anthropic", "chat", "responses"])
def test_a_credential_cut_at_every_position_of_a_stream(kind: str, text: str, credential: str, form: str) -> None:
    redactor = ContentsRedactor()
    for cut in range(1, len(text)):
        cleaned = clean(stream_of(form, ["so: ", text[:cut], text[cut:], "\nmore"]), redactor)
        texts = deltas_of(form, cleaned)
        assert len(texts) == 4 and texts[0] == "so: " and texts[3] == "\nmore"
        assert _core(credential) not in "".join(texts)
        # The other events are as they were, and each part of it has its mark.
        at = text.index(credential)
        assert ("[redacted:" in texts[1]) is (cut > at)
        assert ("[redacted:" in texts[2]) is (cut < at + len(credential))
        # Of two forms that fit, the mark names the one that begins first.
        assert f"[redacted:{kind}:" in cleaned or kind == "aws-secret"


def stream_of(form: str, texts: list[str]) -> str:
    events: list[dict[str, object]]
    if form == "anthropic":
        events = [
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}} for text in texts
        ]
    elif form == "chat":
        events = [
            {"id": "chatcmpl-1", "model": "m", "choices": [{"index": 0, "delta": {"content": text}}]} for text in texts
        ]
    else:
        events = [
            {"type": "response.output_text.delta", "sequence_number": n, "item_id": "msg_1", "output_index": 0}
            | {"content_index": 0, "delta": text}
            for n, text in enumerate(texts)
        ]
    return "".join(f"event: x\ndata: {json.dumps(event)}\n\n" for event in events)


def deltas_of(form: str, stream: str) -> list[str]:
    events = [json.loads(line[6:]) for line in stream.splitlines() if line.startswith("data: ")]
    if form == "anthropic":
        return [event["delta"]["text"] for event in events]
    if form == "chat":
        return [event["choices"][0]["delta"]["content"] for event in events]
    return [event["delta"] for event in events]


def test_one_letter_per_delta_and_parallel_calls() -> None:
    token = FAKES["github-token"][0][0]
    arguments = json.dumps({"command": f"curl -H 'X: {token}'"})
    events = []
    for letter in arguments:
        for index in (0, 1):
            delta = {"type": "input_json_delta", "partial_json": letter}
            events.append({"type": "content_block_delta", "index": index, "delta": delta})
    stream = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
    cleaned = clean(stream)
    texts = {0: "", 1: ""}
    for line in cleaned.splitlines():
        if line:
            event = json.loads(line[6:])
            texts[event["index"]] += event["delta"]["partial_json"]
    assert texts[0] == texts[1] == arguments.replace(token, "[redacted:github-token:1]" * len(token))


def test_secrets_by_value_and_patterns_of_the_user() -> None:
    redactor = ContentsRedactor(["my/own secret", "short"], ["ACME-[0-9]{8}", 'say "[a-z]{3}"'])
    assert clean("a my/own secret b short", redactor) == "a [redacted:secret:13] b short"
    assert clean("my%2Fown%20secret", redactor) == "[redacted:secret:17]"
    assert clean('{"a": "my\\/own secret"}', redactor) == '{"a": "[redacted:secret:14]"}'
    assert clean("ACME-12345678 ACME-1234567", redactor) == "[redacted:pattern:13] ACME-1234567"
    assert clean('{"a": "x say \\"abc\\" y"}', redactor) == '{"a": "x [redacted:pattern:11] y"}'
    # A pattern cannot take the end of a string with it.
    assert clean('{"say ":"abc"}', ContentsRedactor([], ['" ?:"abc'])) == '{"say ":"abc"}'
    stream = stream_of("chat", ["ACME-1234", "5678"])
    assert deltas_of("chat", clean(stream, redactor)) == ["[redacted:pattern:9]", "[redacted:pattern:4]"]
    assert clean("é" + "x" * 20000 + "ACME-12345678", redactor).endswith("x[redacted:pattern:13]")


@pytest.mark.parametrize(
    "text",
    [
        "the task-management-system-of-everyone is at risk-based-authentication-level",
        '{"max_tokens": 100000, "stop_token": null, "key": "value"}',
        "password = os.environ['PASSWORD']",
        "api_key = $OPENAI_API_KEY and token: ${TOKEN}",
        "https://example.com/a:b@c",
        "-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA\n-----END PUBLIC KEY-----",
        "0123456789abcdef0123456789abcdef01234567",
        "[redacted:github-token:40]",
    ],
)
def test_ordinary_text_stays(text: str) -> None:
    assert clean(text) == text


def test_a_second_time_changes_nothing() -> None:
    redactor = ContentsRedactor(["my own secret"], ["ACME-[0-9]{8}"])
    text = json.dumps([text for _, text, _ in CASES] + ["my own secret", "ACME-12345678"])
    once = redactor.clean(text.encode())
    assert redactor.clean(once) == once


@given(st.binary(max_size=200))
def test_other_bytes_stay_as_they_are(body: bytes) -> None:
    assert ContentsRedactor().clean(b"{" + body) == b"{" + body


NEAR_MISSES = [
    *("sk-", "sk-ant-", "ghp_", "eyJ", "eyJa.eyJ", "AKIA", "KEY=(", "TOKEN: ", "://a:", "password=", "Bearer "),
    *("-----BEGIN PRIVATE KEY-----", "-----BEGIN ", "xoxb-", "hooks.slack.com/", ":AA", "_live_", "Q~", "cookie: a "),
    *("\\n", "\\u0041", '"\\"', '"a\\u0041":', "\\\\\\", '{"a":', "data: {}\n", 'data: {"a":"\\n"}\n\n'),
]


@pytest.mark.parametrize("near", NEAR_MISSES)
@pytest.mark.parametrize("start", ["", "[", "data: "])
def test_near_misses_take_linear_time(near: str, start: str) -> None:
    redactor = ContentsRedactor(["my own secret"], ["ACME-[0-9]{8}"])

    def steps(size: int) -> int:
        body = (start + near * size).encode()
        return count_steps(lambda: redactor.clean(body))

    # Searches in C are linear by their patterns: tests/contents/test_credential_forms.py.
    assert steps(1200) <= 2.2 * steps(600)
