"""Advice: every refusal says the next step, to the operator all of it, to whoever has a key no address and no variable.

Row by row, for clients of all protocols, whole and streamed, at an open gateway and at one with keys, on real sockets.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator

import pytest
from msgspec import Struct
from msgspec.structs import replace

from dragoman.config.settings import RouteConfig, Settings
from dragoman.errors import (
    ConfigError,
    Exhausted,
    NotListening,
    Overdue,
    Stalled,
    TimedOut,
    TooLong,
    Unconfigured,
    Unconnected,
    Unencrypted,
    Unnamed,
    Unresolved,
    Untrusted,
    UpstreamError,
)
from dragoman.gateway import advice as module
from dragoman.gateway.advice import Advice, Called, of_error, of_refusal, printable, redirected, without_key
from dragoman.identities.identity import COMMAND_LINE_KEY
from dragoman.identities.key_text import digest_of
from dragoman.providers.provider import Endpoint, Provider
from dragoman.routing.attempt_outcome import AttemptOutcome
from tests.gateway.harness import (
    CHAT,
    MESSAGES,
    PATHS,
    PROTOCOLS,
    PROVIDER_KEY,
    RESPONSES,
    Answer,
    House,
    Reply,
    running,
    settings_for,
    whole,
)
from tests.gateway.says import log_lines, message_of, question, refusal
from tests.identities.holders import holder

GATEWAY_KEY = "dgm_0123456789abcdefghijklmnop"
# A client's protocol and the provider's: translated, and relayed.
ABROAD = {MESSAGES: CHAT, CHAT: MESSAGES, RESPONSES: CHAT}
STREAMING = pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streamed"])
CLIENTS = pytest.mark.parametrize("client", PROTOCOLS)


@pytest.fixture(autouse=True)
def no_container(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests may themselves run in one."""
    monkeypatch.setattr(module, "in_container", lambda: False)


@pytest.fixture(scope="module")
def nobody() -> Iterator[int]:
    """A port of this machine at which nobody listens, for as long as the tests run."""
    with socket.socket() as end:
        end.bind(("127.0.0.1", 0))
        yield end.getsockname()[1]


def keyed(settings: Settings) -> Settings:
    """The same gateway with a key."""
    return replace(settings, keys=(holder("laptop", digest_of(GATEWAY_KEY)),), keys_table=True)


def named_keys(settings: Settings, *names: str) -> Settings:
    """The same, with names for the keys of its providers."""
    providers = {name: replace(each, key_names=names[: len(each.keys)]) for name, each in settings.providers.items()}
    return replace(settings, providers=providers)


class Row(Struct, frozen=True, kw_only=True):
    """Something that is wrong: what the operator reads of it, and what a client with a key does."""

    operator: str
    client: str
    # What the provider answers; nobody is there without it.
    says: Callable[[str], Reply] | None = None
    # The model that is asked for, if it is not the provider's.
    model: str = ""
    # The status by the client's protocol, whether it ends a client at once, and whether a relay keeps the bytes.
    statuses: dict[str, int]
    ends: bool = False
    relays: bool = False


def _statuses(messages: int, chat: int, responses: int) -> dict[str, int]:
    return {MESSAGES: messages, CHAT: chat, RESPONSES: responses}


MISSING = _statuses(404, 404, 404)
BROKEN = _statuses(502, 502, 502)
# What agents are told instead, which heed no header (decision 29).
ENDING = _statuses(424, 400, 400)
ROWS: dict[str, Row] = {
    "no key": Row(
        model="openai/gpt-5.1",
        operator="openai has no key here: set OPENAI_API_KEY",
        client="openai has no key here",
        statuses=MISSING,
        ends=True,
    ),
    "no key, by a bare name": Row(
        model="gpt-5.1",
        operator="`gpt-5.1` is a model of openai, and openai has no key here: set OPENAI_API_KEY",
        client="`gpt-5.1` is a model of openai, and openai has no key here",
        statuses=MISSING,
        ends=True,
    ),
    "nobody listens": Row(
        operator="{name} at 127.0.0.1:{port} refused the connection: is it running?",
        client="{name} refused the connection",
        statuses=BROKEN,
        ends=True,
    ),
    "a refused key": Row(
        says=lambda protocol: refusal(protocol, 401),
        operator="no, said the provider ({name} refused the key PROVIDER_KEY: is it right, and still good?)",
        client="no, said the provider ({name} refused the key that the gateway has for it)",
        statuses=_statuses(502, 502, 502),
        ends=True,
        relays=True,
    ),
    "a redirect": Row(
        says=lambda protocol: whole(b"{}", 307, location="https://elsewhere.example/v1?token=secret"),
        operator="{name} at 127.0.0.1:{port} answered with a redirect to https://elsewhere.example, "
        "which is not followed: is providers.{name}.base_url what its SDK takes?",
        client="{name} answered with a redirect, which is not followed",
        statuses=_statuses(502, 502, 502),
    ),
    "a model that the provider does not have": Row(
        says=lambda protocol: refusal(protocol, 404),
        model="{name}/gpt-9",
        operator="no, said the provider ({name} does not have the model `gpt-9`)",
        client="no, said the provider ({name} does not have the model `gpt-9`)",
        statuses=_statuses(404, 404, 404),
        relays=True,
    ),
    "a path that is not there": Row(
        says=lambda protocol: whole(b"404 page not found", 404, content_type="text/plain"),
        operator="404 page not found ({name} has nothing at this path of 127.0.0.1:{port}: "
        "is providers.{name}.base_url what its SDK takes?)",
        client="404 page not found ({name} has nothing at the address that the gateway calls)",
        statuses=_statuses(404, 404, 404),
    ),
}
NAMES = {MESSAGES: "messages", CHAT: "chat", RESPONSES: "responses"}


def asked(row: Row, client: str, provider: str, nobody: int, *, streaming: bool, open_: bool) -> tuple[House, Answer]:
    """What a client hears, and the house that it heard it from."""

    def settings(port: int) -> Settings:
        made = named_keys(settings_for(port if row.says is not None else nobody), "PROVIDER_KEY")
        return made if open_ else keyed(made)

    body = question(client, provider, stream=streaming)
    if row.model:
        body["model"] = row.model.format(name=NAMES[provider])
    script = [row.says(provider)] * 2 if row.says is not None else []
    with running(script, settings) as house:
        given = {} if open_ else {"authorization": f"Bearer {GATEWAY_KEY}"}
        return house, house.post(PATHS[client], body, **given)


def words(row: Row, house: House, provider: str, nobody: int) -> tuple[str, str]:
    """What the row says, to the operator and to others."""
    facts = {"name": NAMES[provider], "port": str(house.provider.port if row.says is not None else nobody)}
    return row.operator.format(**facts), row.client.format(**facts)


@STREAMING
@CLIENTS
@pytest.mark.parametrize("case", ROWS)
def test_the_operator_reads_the_next_step(case: str, client: str, streaming: bool, nobody: int) -> None:
    row, provider = ROWS[case], ABROAD[client]
    house, told = asked(row, client, provider, nobody, streaming=streaming, open_=True)
    operator, _ = words(row, house, provider, nobody)
    assert message_of(client, told) == operator
    assert told.status == row.statuses[client]
    assert (told.header("x-should-retry") == "false") is row.ends
    # The log has the same reason, without what the provider said.
    assert str(log_lines(house)[0]["advice"]) in operator


@STREAMING
@CLIENTS
@pytest.mark.parametrize("case", ROWS)
def test_who_has_a_key_reads_no_address_and_no_variable(case: str, client: str, streaming: bool, nobody: int) -> None:
    row, provider = ROWS[case], ABROAD[client]
    house, told = asked(row, client, provider, nobody, streaming=streaming, open_=False)
    operator, expected = words(row, house, provider, nobody)
    assert message_of(client, told) == expected
    assert told.status == row.statuses[client]
    everything = str(told.headers).encode() + told.body
    for secret in (b"127.0.0.1", b"PROVIDER_KEY", b"OPENAI_API_KEY", b"elsewhere.example", PROVIDER_KEY.encode()):
        assert secret not in everything
    line = log_lines(house)[0]
    assert str(line["advice"]) in operator
    assert PROVIDER_KEY not in house.log.getvalue() and "token=secret" not in house.log.getvalue()


@CLIENTS
@pytest.mark.parametrize("case", [case for case, row in ROWS.items() if row.relays])
def test_a_relayed_error_keeps_its_bytes_and_has_the_advice_beside_it(case: str, client: str, nobody: int) -> None:
    row = ROWS[case]
    assert row.says is not None
    house, told = asked(row, client, client, nobody, streaming=False, open_=True)
    operator, _ = words(row, house, client, nobody)
    assert told.body == row.says(client).steps[0]
    advice = log_lines(house)[0]["advice"]
    assert told.header("x-dragoman-advice") == advice
    assert f"({advice})" in operator


@CLIENTS
@pytest.mark.parametrize("provider", [MESSAGES, CHAT])
def test_an_overload_has_no_advice(client: str, provider: str) -> None:
    with running([refusal(provider, 529)] * 4) as house:
        told = house.post(PATHS[client], question(client, provider))
    assert told.status >= 500
    assert told.header("x-dragoman-advice") is None
    assert "advice" not in log_lines(house)[0]


@pytest.mark.parametrize(
    ("headers", "name", "table", "operator"),
    [
        ({}, COMMAND_LINE_KEY, False, True),
        ({}, COMMAND_LINE_KEY, True, False),
        ({}, "laptop", False, False),
        ({"x_forwarded_for": "203.0.113.7"}, COMMAND_LINE_KEY, False, False),
    ],
    ids=["the key of a launch", "a key of the file with its name", "a key", "somebody behind a proxy"],
)
def test_the_client_of_a_launch_is_the_operators(
    headers: dict[str, str], name: str, table: bool, operator: bool, nobody: int
) -> None:
    def settings(_: int) -> Settings:
        key = holder(name, digest_of(GATEWAY_KEY))
        return replace(settings_for(nobody), keys=(key,), keys_table=table)

    with running(settings=settings) as house:
        given = {"authorization": f"Bearer {GATEWAY_KEY}", **headers}
        told = house.post(PATHS[CHAT], question(CHAT, CHAT), **given)
    assert ("is it running?" in message_of(CHAT, told)) is operator


def test_whoever_comes_by_way_of_a_proxy_is_not_the_operator(nobody: int) -> None:
    with running(settings=lambda _: settings_for(nobody)) as house:
        told = house.post(PATHS[CHAT], question(CHAT, CHAT), via="1.1 proxy")
    assert message_of(CHAT, told) == "chat refused the connection"


def test_pitfall_648_another_target_that_may_be_well_again_keeps_a_client_trying(nobody: int) -> None:
    """The first target can only fail again, the second is busy for a moment."""

    def settings(port: int) -> Settings:
        made = settings_for(port)
        dead = replace(
            made.providers["chat"],
            name="dead",
            endpoints=(Endpoint(protocol=CHAT, base_url=f"http://127.0.0.1:{nobody}/v1"),),
        )
        line = RouteConfig(pattern="both", targets=("dead/served", "chat/served"))
        return replace(made, providers={**made.providers, "dead": dead}, routes=(line,))

    for reply, ends in ((refusal(CHAT, 529), False), (refusal(CHAT, 503), False)):
        with running([reply], settings) as house:
            told = house.post(PATHS[RESPONSES], question(RESPONSES, CHAT) | {"model": "both"})
            assert (told.status, told.header("x-should-retry") == "false") == (502, ends)
            assert "dead at 127.0.0.1" in message_of(RESPONSES, told)


def test_pitfall_648_nobody_is_left_where_all_refuse_the_connection(nobody: int) -> None:
    def settings(_: int) -> Settings:
        return replace(
            settings_for(nobody), routes=(RouteConfig(pattern="both", targets=("chat/served", "messages/served")),)
        )

    with running(settings=settings) as house:
        told = house.post(PATHS[RESPONSES], question(RESPONSES, CHAT) | {"model": "both"})
    assert (told.status, told.header("x-should-retry")) == (502, "false")


AGENTS = ["claude-cli/2.1.325 (external, cli)", "codex_exec/0.166.0 (Linux)", "opencode/1.18.33 ai-sdk/provider-utils"]


@CLIENTS
@pytest.mark.parametrize("agent", AGENTS)
def test_pitfall_648_agents_that_heed_no_header_are_told_a_status_that_ends_them(
    agent: str, client: str, nobody: int
) -> None:
    with running(settings=lambda _: settings_for(nobody)) as house:
        for model in (NAMES[CHAT] + "/served", "openai/gpt-5.1", "no-such-model"):
            body = question(client, CHAT) | {"model": model}
            told = house.post(PATHS[client], body, user_agent=agent)
            assert told.status == ENDING[client]


def test_pitfall_628_in_a_container_a_loopback_address_is_the_containers_own(
    nobody: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "in_container", lambda: True)
    with running(settings=lambda _: settings_for(nobody)) as house:
        told = message_of(CHAT, house.post(PATHS[CHAT], question(CHAT, CHAT)))
    assert told == (
        f"chat at 127.0.0.1:{nobody} refused the connection: is it running? In a container 127.0.0.1 is the container "
        f"itself: if it runs on the host, it is at host.docker.internal:{nobody}"
    )


def test_only_inside_a_container_its_host_is_to_be_named_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    error = Unnamed("the provider's host name cannot be resolved", address="host.docker.internal:11434")
    endpoint = Endpoint(protocol=CHAT, base_url="http://host.docker.internal:11434/v1")
    called = Called(provider=Provider(name="ollama", endpoints=(endpoint,)), endpoint=endpoint)
    for inside in (False, True):
        monkeypatch.setattr(module, "in_container", lambda inside=inside: inside)
        advice = of_error(error, called)
        assert advice is not None
        assert ("start the container with --add-host host.docker.internal:host-gateway" in advice.operator) is inside


def test_an_unknown_model_offers_what_is_near_of_what_the_provider_listed() -> None:
    listed = {"object": "list", "data": [{"id": f"gpt-5.{n}", "object": "model"} for n in range(9)]}

    def settings(port: int) -> Settings:
        made = settings_for(port)
        chat = replace(made.providers["chat"], models=None)
        return replace(made, providers={"chat": chat})

    script = [whole(listed), refusal(CHAT, 404)]
    with running(script, settings) as house:
        assert house.get("/v1/models").status == 200
        typo = house.post(PATHS[CHAT], question(CHAT, CHAT) | {"model": "gpt5.1"})
        refused = house.post(PATHS[MESSAGES], question(MESSAGES, CHAT) | {"model": "chat/gpt-5.11"})
    told = message_of(CHAT, typo)
    assert told.startswith("the model `gpt5.1` is not known here; did you mean chat/gpt-5.")
    assert told.count("chat/") == 3
    assert "chat does not have the model `gpt-5.11`; did you mean gpt-5.1, " in message_of(MESSAGES, refused)


@pytest.mark.parametrize("open_", [True, False], ids=["open", "keyed"])
def test_what_is_asked_beside_conversations_has_advice_too(open_: bool, nobody: int) -> None:
    def settings(_: int) -> Settings:
        made = settings_for(nobody)
        return made if open_ else keyed(made)

    given = {} if open_ else {"authorization": f"Bearer {GATEWAY_KEY}"}
    with running(settings=settings) as house:
        broken = house.post("/v1/embeddings", {"model": "chat/served", "input": "x"}, **given)
        without = house.post("/v1/embeddings", {"model": "openai/text-embedding-3-small", "input": "x"}, **given)
    place = f" at 127.0.0.1:{nobody}" if open_ else ""
    step = ": is it running?" if open_ else ""
    assert message_of(CHAT, broken) == f"chat{place} refused the connection{step}"
    assert broken.header("x-should-retry") == "false"
    assert message_of(CHAT, without) == "openai has no key here" + (": set OPENAI_API_KEY" if open_ else "")
    lines = log_lines(house)
    assert lines[0]["advice"] == f"chat at 127.0.0.1:{nobody} refused the connection: is it running?"
    assert lines[1]["advice"] == "openai has no key here: set OPENAI_API_KEY"


# The words themselves.

OLLAMA = Provider(
    name="ollama", endpoints=(Endpoint(protocol=CHAT, base_url="http://127.0.0.1:11434/v1"),), auth="none"
)
OPENAI = Provider(
    name="openai",
    endpoints=(Endpoint(protocol=CHAT, base_url="https://api.openai.com/v1"),),
    keys=("sk-one-0123456789", "sk-two-0123456789"),
    key_names=("OPENAI_API_KEY", "key 2 of providers.openai.api_key"),
)


def called(provider: Provider = OPENAI, **more: object) -> Called:
    return Called(provider=provider, endpoint=provider.endpoints[0], **more)  # type: ignore[arg-type]


PLACE = "api.openai.com"
ERRORS: dict[str, tuple[UpstreamError, str, str, bool]] = {
    "a far host that refuses": (
        NotListening("the provider refused the connection", address=PLACE),
        "openai at api.openai.com refused the connection: is it up, and is the address right?",
        "openai refused the connection",
        False,
    ),
    "a proxy that refuses": (
        NotListening("the proxy refused the connection", address="proxy.test:3128", proxied=True),
        "the proxy refused the connection (the proxy at proxy.test:3128 is the way to openai: see HTTPS_PROXY and "
        "NO_PROXY)",
        "openai cannot be reached: the proxy refused the connection",
        False,
    ),
    "no such host": (
        Unnamed("the provider's host name cannot be resolved", address=PLACE),
        "there is no host api.openai.com, where openai is called: check providers.openai.base_url, and the network",
        "openai cannot be reached: its host's name leads nowhere",
        True,
    ),
    "the host of a container, outside of one": (
        Unnamed("the provider's host name cannot be resolved", address="host.docker.internal:11434"),
        "there is no host host.docker.internal, where openai is called: check providers.openai.base_url, and the "
        "network",
        "openai cannot be reached: its host's name leads nowhere",
        True,
    ),
    "name servers that are silent": (
        Unresolved("the provider's host name cannot be resolved", address=PLACE),
        "api.openai.com, where openai is, could not be looked up: no name server answers; is there a network?",
        "openai cannot be reached at present: its host's name could not be looked up",
        False,
    ),
    "a certificate": (
        Untrusted("the provider's certificate is not trusted", address=PLACE),
        "the certificate of openai at api.openai.com is not trusted, or not for this name: check "
        "providers.openai.base_url; SSL_CERT_FILE names authorities of your own",
        "openai cannot be called safely: its certificate is not trusted, or not for its name",
        True,
    ),
    "no TLS": (
        Unencrypted("the provider did not agree on a TLS connection", address=PLACE),
        "openai at api.openai.com did not agree on a TLS connection: is it https that is spoken there?",
        "openai did not agree on a TLS connection",
        False,
    ),
    "no socket left": (
        Exhausted("no connection to the provider could be made", address=PLACE),
        "this machine has no socket, port or memory left for a call to openai: see ulimit -n",
        "the gateway has no room for a call to openai at present",
        False,
    ),
    "no connection in time": (
        Unconnected("no connection to the provider within 10 s", address=PLACE),
        "api.openai.com: no connection to openai within 10 s: is the address right, and does a firewall let it "
        "through? timeouts.connect is the limit",
        "no connection to openai within 10 s",
        False,
    ),
    "no answer in time": (
        TimedOut("the provider did not begin to respond within 300 s"),
        "openai did not begin to respond within 300 s (timeouts.first_byte is the limit)",
        "openai did not begin to respond within 300 s",
        False,
    ),
    "silence": (
        Stalled("the provider fell silent for 120 s"),
        "openai fell silent for 120 s (timeouts.idle is the limit)",
        "openai fell silent for 120 s",
        False,
    ),
    "too long": (
        Overdue("the exchange took longer than 1800 s"),
        "the exchange took longer than 1800 s (timeouts.total is the limit)",
        "the exchange took longer than 1800 s",
        False,
    ),
    "not configured": (
        Unconfigured("the provider is not configured completely", remedy="providers.openai.region is missing"),
        "openai is not configured completely: providers.openai.region is missing",
        "openai is not configured completely",
        True,
    ),
    "anything else": (
        UpstreamError("The provider's stream broke off within a message."),
        "openai's stream broke off within a message.",
        "openai's stream broke off within a message.",
        False,
    ),
}


@pytest.mark.parametrize("case", ERRORS)
def test_what_broke_has_two_texts(case: str) -> None:
    error, operator, client, lasting = ERRORS[case]
    assert of_error(error, called()) == Advice(operator=operator, client=client, is_permanent=lasting)


def test_a_call_that_is_shown_shows_no_key() -> None:
    assert not any(key in repr(called(keys=OPENAI.keys)) for key in OPENAI.keys)


def test_what_is_no_providers_fault_has_no_advice() -> None:
    assert of_error(TooLong("it is too long"), called()) is None
    wrong = ConfigError(key="providers.openai.region", problem="is missing", remedy="set it", file="/home/me/x.toml")
    told = of_error(wrong, called())
    assert told is not None and "/home/me" not in told.client and "region" in told.operator


REFUSALS: dict[str, tuple[AttemptOutcome, Called, str]] = {
    "one key": (
        AttemptOutcome.INVALID_KEY,
        called(keys=OPENAI.keys[:1]),
        "openai refused the key OPENAI_API_KEY: is it right, and still good?",
    ),
    "all keys": (
        AttemptOutcome.INVALID_KEY,
        called(keys=OPENAI.keys),
        "openai refused the key OPENAI_API_KEY and key 2 of providers.openai.api_key: is it right, and still good?",
    ),
    "none at all": (
        AttemptOutcome.INVALID_KEY,
        called(OLLAMA),
        "ollama asks for a key and has none here: set providers.ollama.api_key",
    ),
    "a cloud's own": (
        AttemptOutcome.INVALID_KEY,
        called(replace(OLLAMA, name="bedrock", auth="aws")),
        "bedrock refused the credentials of aws that were found: is it right, and still good?",
    ),
    "a header's": (
        AttemptOutcome.FORBIDDEN,
        called(replace(OLLAMA, headers={"authorization": "secret"})),
        "ollama does not allow this with the headers of providers.ollama: may that be used for this model?",
    ),
    "no money": (
        AttemptOutcome.INSUFFICIENT_QUOTA,
        called(keys=OPENAI.keys[1:]),
        "openai has no credit or quota left for key 2 of providers.openai.api_key: see its billing page",
    ),
    "a model to be pulled": (
        AttemptOutcome.UNKNOWN_MODEL,
        called(OLLAMA, model="qwen3"),
        "ollama does not have the model `qwen3`: ollama pull qwen3",
    ),
    "a model that is listed": (
        AttemptOutcome.UNKNOWN_MODEL,
        called(model="gpt-5.1", models=("gpt-5", "gpt-5.1")),
        "openai lists the model `gpt-5.1`, and says that it is not there for this key",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_refusal_names_the_key_and_never_its_text(case: str) -> None:
    kind, call, operator = REFUSALS[case]
    told = of_refusal(kind, call)
    assert told is not None and told.operator == operator
    for text in (told.operator, told.client):
        assert not any(secret in text for secret in (*OPENAI.keys, "secret"))
    assert "OPENAI_API_KEY" not in told.client and "providers." not in told.client


def test_what_a_provider_says_better_itself_has_no_advice() -> None:
    assert of_refusal(AttemptOutcome.RATE_LIMITED, called()) is None
    assert of_refusal(AttemptOutcome.INVALID_REQUEST, called()) is None


def test_a_provider_of_the_catalogue_says_what_it_takes() -> None:
    assert without_key("bedrock", (), discover=True).operator == (
        "bedrock is not set up here: add [providers.bedrock] to the configuration"
    )
    assert without_key("groq", ("GROQ_API_KEY",), discover=False).operator == (
        "groq has no key here: set GROQ_API_KEY, and add [providers.groq] to the configuration"
    )


@pytest.mark.parametrize(
    ("location", "place"),
    [
        (b"https://elsewhere.example/v1?token=secret", "https://elsewhere.example"),
        (b"https://user:secret@elsewhere.example:8443/v1", "https://elsewhere.example:8443"),
        (b"/v1/other", ""),
        (b"http://[::1", ""),
        (b"javascript:alert(1)", ""),
    ],
)
def test_of_where_a_redirect_leads_only_the_host_is_told(location: bytes, place: str) -> None:
    assert redirected([(b"location", location)]).address == place


def test_a_name_from_outside_stays_on_its_line() -> None:
    assert printable("a\nb\x1b[2J" + "c" * 500) == f"`a?b?[2J{'c' * 113}`"
