"""Redaction: no key and no address leaves in a provider's error, however it is spelled; JSON stays JSON."""

from __future__ import annotations

import json
import math
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Mapping
from re._constants import (  # type: ignore[import-not-found]  # no types for the parser of expressions
    ASSERT,
    ASSERT_NOT,
    BRANCH,
    MAX_REPEAT,
    MAXREPEAT,
    MIN_REPEAT,
    POSSESSIVE_REPEAT,
    SUBPATTERN,
)
from re._parser import SubPattern, parse  # type: ignore[import-not-found]  # the same
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.gateway.forwarding import redaction
from dragoman.gateway.forwarding.redaction import Redactor
from dragoman.http.upstream_call import UpstreamRequest
from dragoman.providers.provider import Endpoint, Provider

KEY = "sk-proj-Zq8/w+Xy=_7Tn4Lm2Kp9"
ACCESS, SECRET, TOKEN = "AKIDEXAMPLE12345", "wJalrXUtnFEMI/K7MDENG+bPxRfi", "IQoJb3JpZ2luX2VjEXAMPLE"
SPLIT = f"{ACCESS}:{SECRET}:{TOKEN}"
HOST = "llm.internal.example"


def redactor(
    *keys: str, base_url: str = f"https://{HOST}:8443/v1", headers: Mapping[str, str] | None = None
) -> Redactor:
    ends = (Endpoint(protocol="openai-chat", base_url=base_url),)
    return Redactor(Provider(name="p", endpoints=ends, keys=keys, headers=headers or {}))


def escaped(text: str) -> str:
    """Every character as JSON's longest escape, but letters and digits."""
    return "".join(c if c.isalnum() else f"\\u{ord(c):04X}" for c in text)


SPELLINGS = {
    "as it is": KEY,
    "in capitals": KEY.upper(),
    "in small letters": KEY.lower(),
    "percent-encoded": quote(KEY, safe=""),
    "percent-encoded in small letters": quote(KEY, safe="").lower(),
    "percent-encoded but for slashes": quote(KEY, safe="/"),
    "with escaped slashes": KEY.replace("/", "\\/"),
    "with escapes by number": escaped(KEY),
    "in base64": b64encode(KEY.encode()).decode(),
    "in base64 for URLs": urlsafe_b64encode(KEY.encode()).decode(),
    "in base64 behind a user's name": b64encode(f"u:{KEY}".encode()).decode(),
    "in base64 behind a longer name": b64encode(f"user:{KEY}".encode()).decode(),
    "in base64 before something else": b64encode(f"{KEY}:password".encode()).decode(),
    "behind Bearer": f"Bearer {KEY}",
    "in a query": f"?key={quote(KEY, safe='')}&x=1",
    "twice": f"{KEY} {KEY}",
    "with more behind it": f"{KEY}abc",
    "as its first half": KEY[:14],
    "as its first half and stars": f"{KEY[:14]}********",
    "as its first letters, stars and its last": f"sk-proj-{'*' * 20}2Kp9",
    "as its first letters and dots": "sk-proj...",
    "as its first letters and an ellipsis": "sk-proj…2Kp9",
    "as its first letters and bullets": "sk-p••••••••2Kp9",
    "as stars and its last letters": "********2Kp9",
}


@pytest.mark.parametrize("case", SPELLINGS)
def test_a_key_is_blanked_out(case: str) -> None:
    body = f'{{"error":{{"message":"Incorrect key: {SPELLINGS[case]}","code":"invalid_api_key"}}}}'.encode()
    json.loads(body)
    cleaned = redactor(KEY).clean(body)
    told = json.loads(cleaned)
    assert "[redacted]" in told["error"]["message"]
    assert told["error"]["code"] == "invalid_api_key"
    assert told["error"]["message"].startswith("Incorrect key: ")
    for letters in (KEY[:6], KEY[:6].upper(), "2Kp9", KEY[8:14], b64encode(KEY.encode()).decode()[4:12]):
        assert letters not in told["error"]["message"]


@pytest.mark.parametrize("part", [ACCESS, SECRET, TOKEN, SPLIT, f"{ACCESS}:{SECRET}"])
def test_every_part_of_a_clouds_key_is_blanked_out(part: str) -> None:
    cleaned = redactor(SPLIT).clean_text(f"bad credential {part}, sorry")
    for secret in (ACCESS, SECRET, TOKEN):
        assert secret[:8] not in cleaned
    assert cleaned.startswith("bad credential [redacted]")
    assert cleaned.endswith(", sorry")


def test_all_keys_of_a_provider_are_blanked_out() -> None:
    keys = [f"key-number-{count:04}-abcdefgh" for count in range(80)]
    door = redactor(*keys)
    for key in keys:
        assert key not in door.clean_text(f"wrong: {key}")


def test_of_a_key_that_begins_as_another_nothing_is_left() -> None:
    longer = f"{KEY}-of-another-team"
    for keys in ((KEY, longer), (longer, KEY)):
        assert redactor(*keys).clean_text(f"not {longer}.") == redactor(longer).clean_text(f"not {longer}.")


@pytest.mark.parametrize("short", ["none", "EMPTY", "sk-1", ""])
def test_what_is_too_short_to_be_a_secret_does_not_blank_out_words(short: str) -> None:
    text = f"none of the EMPTY sk-1 things {short}"
    assert redactor(short).clean_text(text) == text


HEADERS = {
    "by its name": ("x-proxy-secret", "correct-horse-battery", "correct-horse-battery", True),
    "behind its scheme": ("helicone-auth", "Bearer sk-helicone-abcdef", "sk-helicone-abcdef", True),
    "by its value": ("x-team", "a81bc81b-dead-4e5d", "a81bc81b-dead-4e5d", True),
    "not a kind of content": ("accept", "application/json", "application/json", False),
    "not a word": ("x-title", "assistant", "assistant", False),
    "not a date": ("api-version", "2025-01-01", "2025-01-01", False),
}


@pytest.mark.parametrize("case", HEADERS)
def test_a_configured_header_is_a_secret(case: str) -> None:
    name, value, said, secret = HEADERS[case]
    cleaned = redactor(headers={name: value}).clean_text(f"refused: {said}!")
    assert (said not in cleaned) is secret


ADDRESSES = {
    "alone": HOST,
    "in capitals": HOST.upper(),
    "with its port": f"{HOST}:8443",
    "with another port": f"{HOST}:9",
    "as a URL": f"https://{HOST}:8443/v1/chat/completions?x=1",
    "as a URL without TLS": f"http://{HOST}/v1",
    "as a URL with escaped slashes": f"https:\\/\\/{HOST}\\/v1\\/chat",
    "as a URL, percent-encoded": quote(f"https://{HOST}/v1", safe=""),
    "behind an at sign": f"root@{HOST}",
}


@pytest.mark.parametrize("case", ADDRESSES)
def test_an_address_is_blanked_out(case: str) -> None:
    body = f'{{"message":"cannot reach {ADDRESSES[case]} now","type":"x"}}'.encode()
    told = json.loads(redactor().clean(body))
    assert "internal" not in told["message"].lower()
    assert "v1" not in told["message"]
    assert told["message"].startswith("cannot reach ")
    assert told["message"].endswith(" now")


@pytest.mark.parametrize(
    ("base_url", "said", "leaves"),
    [
        ("http://127.0.0.1:11434/v1", "connect to 127.0.0.1:11434 failed", "connect to [redacted] failed"),
        ("http://127.0.0.1/v1", "try 127.0.0.10 instead", "try 127.0.0.10 instead"),
        ("http://[::1]:9/v1", "connect to [::1]:9/v1 failed", "connect to [redacted] failed"),
        ("http://[2001:db8::7]/v1", "from 2001:db8::7 failed", "from [redacted] failed"),
        ("http://api:8000/v1", '{"type":"api_error","message":"api key"}', '{"type":"api_error","message":"api key"}'),
        ("http://api:8000/v1", "no route to api:8000/v1 now", "no route to [redacted] now"),
        ("http://api:8000/v1", "GET http://api/v1 failed", "GET [redacted] failed"),
        ("https://example.com/v1", "see example.community", "see example.community"),
        ("https://{resource}.openai.azure.com", "plain words {resource}", "plain words {resource}"),
    ],
)
def test_only_the_address_itself_is_blanked_out(base_url: str, said: str, leaves: str) -> None:
    assert redactor(base_url=base_url).clean_text(said) == leaves
    assert redactor(base_url=base_url).clean(said.encode()) == leaves.encode()


ODD_KEYS = {
    "digits alone": "1234567890123456",
    "a number": "12345678.25",
    "digits at its beginning": "123456789012345abcdef",
    "a quote in it": 'abcdefgh"ijklmnop',
    "a backslash at its end": "abcdefghijkl\\",
    "a backslash in it": "abcdefgh\\nijkl",
    "a JSON text": '{"a":"b","c":12}',
    "signs of patterns": "a.c*e+g?(i|k)[m]^$",
    "other scripts": "пароль-очень-длинный",
    "beyond the basic plane": "pass\U0001f600word\U0001f600",
}


@pytest.mark.parametrize("case", ODD_KEYS)
def test_json_stays_json_whatever_the_key_is(case: str) -> None:
    key = ODD_KEYS[case]
    values = [key, f"it was {key}, really", {"k": key, key: 1}, {"a": "b", "c": 12}, "a\\", "abcdefghijkl\\"]
    numbers = [1234567890123456, 12345678.25, 12345678901234567, -1234567890123456, 123456789012345678901]
    for ascii_only in (True, False):
        body = json.dumps({"values": values, "numbers": numbers}, ensure_ascii=ascii_only, separators=(",", ":"))
        cleaned = redactor(key).clean(body.encode())
        told = json.loads(cleaned)
        if ascii_only is False or key.isascii():
            assert key not in json.dumps(told["values"][:2], ensure_ascii=False)


@pytest.mark.parametrize("case", ODD_KEYS)
def test_an_odd_key_is_blanked_out_in_text(case: str) -> None:
    assert ODD_KEYS[case] not in redactor(ODD_KEYS[case]).clean_text(f"it was {ODD_KEYS[case]} again")


# What can stand in a header; digits alone are tested above.
VISIBLE = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=8, max_size=30)


@given(
    key=VISIBLE.map("k".__add__), around=st.text(st.characters(codec="utf-8"), max_size=10), ascii_only=st.booleans()
)
def test_any_key_is_blanked_out_and_json_stays_json(key: str, around: str, ascii_only: bool) -> None:
    body = json.dumps({"m": f"it was {around} {key} {around}"}, ensure_ascii=ascii_only).encode()
    told = json.loads(redactor(key).clean(body))["m"]
    assert key not in told
    assert told.startswith("it was ")


def provider_of(key: str, region: str) -> Provider:
    ends = (Endpoint(protocol="openai-chat", base_url="https://api.example/v1"),)
    headers = {"x-tenant": "tenant-4711-a"}
    return Provider(name="p", endpoints=ends, keys=(key,), options={"region": region}, headers=headers)


def pieces(key: str, region: str, before: str = "", after: str = "") -> list[str]:
    """Secrets, whole and in part, that may be part of a name."""
    encoded = b64encode(f"{before}{key}{after}".encode()).decode().rstrip("=")
    url_safe = encoded.replace("+", "-").replace("/", "_")
    return ["", key, key[:12], key[:11], key[1:], key.upper(), region, "tenant-4711-A", encoded, url_safe]


@pytest.mark.parametrize("around", ["{}", "-{}-", "a{}", "{}9"])
def test_a_name_is_searched_as_any_other_text_is(around: str) -> None:
    door = Redactor(provider_of(KEY, "eu-west1"))
    cleaned = [door.clean_text(around.format(piece)) for piece in pieces(KEY, "eu-west1")]
    # No name has a blank in it.
    assert cleaned == [door.clean_text(f"{around.format(piece)} ")[:-1] for piece in pieces(KEY, "eu-west1")]
    assert sum("[redacted]" in name for name in cleaned) == (6 if around[0] == "a" or around[-1] == "9" else 7)


NAME = st.text("abkXYZ019_-", max_size=8)


@given(
    key=VISIBLE | st.text("abkXYZ019_-", min_size=8, max_size=20),
    region=st.text("ab1-", min_size=4, max_size=8),
    before=NAME,
    after=NAME,
    number=st.integers(0, 9),
)
def test_any_name_is_searched_as_any_other_text_is(key: str, region: str, before: str, after: str, number: int) -> None:
    door = Redactor(provider_of(key, region))
    name = before + pieces(key, region, before, after)[number] + after
    assert door.clean_text(name) == door.clean_text(f"{name} ")[:-1]


def call(token: str, url: str = "https://cloud.example/v1") -> UpstreamRequest:
    return UpstreamRequest(method="POST", url=url, headers=[(b"authorization", b"Bearer " + token.encode())])


def test_credentials_that_a_transport_found_are_learned() -> None:
    door = redactor(KEY)
    door.learn(call("ya29.a0-found-token-xyz"))
    cleaned = door.clean_text(f"ya29.a0-found-token-xyz at https://cloud.example/v1/x and {KEY}")
    assert cleaned == "[redacted] at [redacted] and [redacted]"


def test_what_is_learned_does_not_push_out_what_is_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    # With every token all patterns are compiled anew, and few show it as well as many.
    limit = 6
    monkeypatch.setattr(redaction, "_LEARNED_LIMIT", limit)
    door = redactor(KEY)
    for count in range(3 * limit):
        door.learn(call(f"token-of-hour-{count:05}-xyz", f"https://h{count}.cloud.example/"))
    latest = range(2 * limit, 3 * limit)
    cleaned = door.clean_text(f"{KEY} {' '.join(f'token-of-hour-{count:05}-xyz' for count in latest)} {HOST}")
    assert cleaned == " ".join(["[redacted]"] * (limit + 2))
    assert list(door._learned) == [f"token-of-hour-{count:05}-xyz" for count in latest]
    assert list(door._learned_hosts) == [f"h{count}.cloud.example" for count in latest]


def test_a_signature_is_not_worth_learning() -> None:
    door = redactor(KEY)
    for count in range(5):
        signed = f"AWS4-HMAC-SHA256 Credential=AKID/x, SignedHeaders=host, Signature={count:064}"
        door.learn(
            UpstreamRequest(method="POST", url=f"https://{HOST}/", headers=[(b"authorization", signed.encode())])
        )
    assert not door._learned


def test_a_signature_tells_whose_key_it_is_and_which_region() -> None:
    door = Redactor(Provider(name="p", transport="bedrock", endpoints=()))
    scope = f"Credential={ACCESS}/20260101/eu-west-1/bedrock/aws4_request"
    signed = f"AWS4-HMAC-SHA256 {scope}, SignedHeaders=host, Signature={0:064}"
    door.learn(UpstreamRequest(method="POST", url="https://x.example/", headers=[(b"authorization", signed.encode())]))
    assert door.clean_text(f"{ACCESS} in eu-west-1, not in eu-west-11") == "[redacted] in [redacted], not in eu-west-11"


def test_the_path_of_a_call_tells_project_and_region() -> None:
    door = Redactor(Provider(name="p", transport="vertex", endpoints=()))
    url = "https://x.example/v1/projects/acme-1/locations/europe-west1/publishers/anthropic/models/m:rawPredict"
    door.learn(UpstreamRequest(method="POST", url=url, headers=[]))
    assert door.clean_text("acme-1 in europe-west1-a") == "[redacted] in [redacted]-a"


@pytest.mark.parametrize(
    ("transport", "text", "cleaned"),
    [
        ("bedrock", "User: arn:aws:iam::123456789012:user/bob is not", "User: [redacted] is not"),
        ("bedrock", '{"m":"arn:aws-cn:x","n":123456789012}', '{"m":"[redacted]","n":0}'),
        ("bedrock", "id 0a1b2c3d-123456789012, 1234567890123", "id 0a1b2c3d-123456789012, 1234567890123"),
        ("vertex", "on '//x/projects/p/locations/l/models/m'", "on '//x/[redacted]/[redacted]/models/m'"),
        ("vertex", "for robot@acme.iam.gserviceaccount.com.", "for robot[redacted]."),
        ("http", "arn:aws:iam::123456789012:user/bob projects/p", "arn:aws:iam::123456789012:user/bob projects/p"),
    ],
)
def test_ids_of_clouds_are_blanked_out_in_their_own_errors(transport: str, text: str, cleaned: str) -> None:
    door = Redactor(Provider(name="p", transport=transport, endpoints=(), keys=(KEY,)))
    assert door.clean(text.encode()) == cleaned.encode()


def test_options_are_places_unless_they_are_mere_words_or_versions() -> None:
    options = {"resource": "acme-77", "project": "error", "region": "us", "api_version": "2025-04-01"}
    door = Redactor(Provider(name="p", endpoints=(), options=options))
    assert door.clean(b'{"error":"acme-77 us 2025-04-01"}') == b'{"error":"[redacted] us 2025-04-01"}'


def test_a_host_with_placeholders_is_known_as_it_is_called() -> None:
    ends = (Endpoint(protocol="openai-chat", base_url="https://{resource}.llm.example/v1"),)
    door = Redactor(Provider(name="p", endpoints=ends, options={"resource": "acme"}))
    assert door.clean_text("no route to https://acme.llm.example:443/v1 today") == "no route to [redacted] today"


def test_a_provider_without_secrets_changes_nothing() -> None:
    door = Redactor(Provider(name="echo", endpoints=(Endpoint(protocol="openai-chat", base_url="echo:"),)))
    assert door.clean(b"\xff anything") == b"\xff anything"
    assert door.clean_text("anything \ud800") == "anything \ud800"


def test_text_that_is_no_unicode_is_still_read() -> None:
    assert redactor(KEY).clean_text(f"\ud800 {KEY}") == "? [redacted]"
    assert redactor(KEY).clean(b"\xff " + KEY.encode() + b" \xfe") == b"\xff [redacted] \xfe"


def test_frames_of_a_stream_stay_frames() -> None:
    frame = f'event: error\ndata: {{"error":{{"message":"bad {KEY}"}}}}\n\ndata: [DONE]\n\n'.encode()
    assert redactor(KEY).clean(frame) == frame.replace(KEY.encode(), b"[redacted]")


def _backtracks(parsed: SubPattern, *, is_tail: bool) -> float:
    """How many ways one attempt has to match what is repeated before it knows whether it matches, at most.

    A repetition at the very end cannot fail, whatever it takes: nothing follows that would make it give back.
    """
    ways = 1.0
    for count, (op, args) in enumerate(parsed):
        ends = is_tail and count == len(parsed) - 1
        if op in _REPEATS and not ends:
            least, most, body = args
            ways *= (math.inf if most is MAXREPEAT else most - least + 1) * _backtracks(body, is_tail=False)
        elif op is SUBPATTERN:
            ways *= _backtracks(args[-1], is_tail=ends)
        elif op is BRANCH:
            ways *= max(_backtracks(way, is_tail=ends) for way in args[1])
        elif op in (ASSERT, ASSERT_NOT):
            ways *= _backtracks(args[1], is_tail=False)
    return ways


_REPEATS = (MAX_REPEAT, MIN_REPEAT, POSSESSIVE_REPEAT)


@pytest.mark.parametrize("transport", ["http", "bedrock", "vertex"])
def test_item_4_an_error_made_to_slow_the_search_down_takes_time_in_proportion_to_its_length(transport: str) -> None:
    """The engine's work at each byte is bounded, and the search goes over the bytes once."""
    endpoint = Endpoint(protocol="openai-chat", base_url="https://api.example.org/v1")
    keys = ("sk-provider-0123456789abcdef", "AKIA0123456789AB:secret/0123+45:token")
    redactor = Redactor(Provider(name="p", endpoints=(endpoint,), keys=keys, transport=transport))
    for pattern in (redactor._in_json, redactor._in_text):
        assert pattern is not None
        assert _backtracks(parse(pattern.pattern), is_tail=True) <= 100


@pytest.mark.parametrize(
    ("pattern", "ways"), [(b"a*", 1), (b"a*b", math.inf), (b"(?:a|b+c)", math.inf), (b"a{1,9}b", 9), (b"a{3}b", 1)]
)
def test_what_a_search_could_repeat_is_counted(pattern: bytes, ways: float) -> None:
    assert _backtracks(parse(pattern), is_tail=True) == ways


def test_what_is_searched_of_an_error_shrinks_with_the_number_of_keys() -> None:
    one, many = (redactor(*(f"sk-{number:03}-0123456789abcdef" for number in range(count))) for count in (1, 50))
    assert one.max_error_bytes == 256 * 1024
    assert many.max_error_bytes == 16 * 1024

    def work(searching: Redactor) -> int:
        assert searching._in_json is not None
        return searching.max_error_bytes * len(searching._in_json.pattern)

    # Fifty times as much to look for, and about the same work.
    assert work(many) < 4 * work(one)
