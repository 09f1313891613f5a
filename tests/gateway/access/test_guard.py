"""Access: keys in either header, and no web page but those that the operator names."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256

import pytest
from msgspec.structs import replace

from dragoman.config.settings import Server, Settings
from dragoman.errors import ClientError, DragomanError, KeysUnreadable, UnknownKeysLimited
from dragoman.gateway.access import guard as access
from dragoman.gateway.access.guard import Guard, credential, hostname
from dragoman.gateway.access.identity_table import IdentityTable, LookUp, UnreadableKey
from dragoman.gateway.access.unknown_key_limit import MAX_ATTEMPTS
from dragoman.gateway.workers.protection import Protection
from dragoman.gateway.workers.shared_memory import SharedMemory
from dragoman.http.body import Body
from dragoman.http.request import ServerRequest
from dragoman.identities.identity import ADMIN, VIEWER, AcceptedDigest, Rights
from dragoman.identities.key_text import new_key
from tests.identities.holders import holder

MESSAGES, CHAT, RESPONSES = "anthropic-messages", "openai-chat", "openai-responses"
OURS = "localhost:8484"


class Nobody:
    """A connection that nothing is read from or written to."""

    gone = False
    retiring = False

    def send(self, data: bytes) -> None: ...

    def sever(self, reset: bool) -> None: ...

    def after_sending(self, call: Callable[[], None]) -> None: ...

    def hold(self) -> None: ...

    def release(self) -> None: ...

    def await_body(self, proceed: bool) -> None: ...

    def body_waited(self) -> None: ...

    def too_much(self) -> None: ...


def asked(*headers: tuple[str, str], host: str = OURS) -> ServerRequest:
    """A request with these headers."""
    listed = [(name.encode(), value.encode("latin-1")) for name, value in (("host", host), *headers)]
    return ServerRequest(
        Nobody(),
        method="POST",
        path="/v1/messages",
        query="",
        headers=listed,
        table=dict(reversed(listed)),
        content=Body(Nobody(), 0, False),
        peer="127.0.0.1",
        modern=True,
        closes=False,
    )


def guard(*keys: str, server: Server | None = None) -> Guard:
    """What stands at the door of a gateway with these keys."""
    known = tuple(holder(f"of {key}", sha256(key.encode()).digest()) for key in keys)
    return Guard(Settings(server=server or Server(), keys=known))


def is_admitted(door: Guard, request: ServerRequest) -> bool:
    try:
        door.admit(request)
    except ClientError as error:
        assert error.status == 403
        return False
    return True


# Hosts.

GOOD_HOSTS = {
    "localhost": "localhost",
    "localhost and a port": "localhost:8484",
    "localhost in capitals": "LocalHost:8484",
    "localhost with a trailing dot": "localhost.:8484",
    "a name below localhost": "app.localhost:8484",
    "an address": "127.0.0.1:8484",
    "an address without a port": "127.0.0.1",
    "an address of the network": "192.168.1.7:8484",
    "IPv6": "[::1]:8484",
    "IPv6 without a port": "[::1]",
    "IPv6 with a zone": "[fe80::1%25eth0]:8484",
    "a name that the operator allows": "gateway.example.org",
    "such a name in capitals, with dot and port": "GATEWAY.example.ORG.:443",
}
BAD_HOSTS = {
    "a page's own name, rebound to this address": "evil.example",
    "a name that begins with ours": "localhost.evil.example",
    "a name that ends with ours": "evillocalhost",
    "a name that begins with an allowed one": "gateway.example.org.evil.example",
    "a name below an allowed one": "sub.gateway.example.org",
    "a name that begins with an address": "127.0.0.1.evil.example",
    "a name of a service that leads anywhere": "127.0.0.1.nip.io:8484",
    "ours as user information": "localhost@evil.example",
    "a page with ours as user information and a port": "evil.example:80@localhost",
    "a port that is none": "evil.example:localhost",
    "two ports": "localhost:1:evil.example",
    "something behind IPv6": "[::1].evil.example",
    "something behind the port of IPv6": "[::1]:80.evil.example",
    "brackets that do not close around a name": "[localhost.evil.example",
    "an address as one number": "2130706433",
    "nothing": "",
    "a port alone": ":8484",
    "a star": "*",
    "a list": "localhost, evil.example",
    "a path": "localhost/evil.example",
    "letters that look like ours": "locälhost",
}


def allowing() -> Guard:
    return guard(server=Server(allowed_hosts=("Gateway.example.org",)))


@pytest.mark.parametrize("case", GOOD_HOSTS)
def test_a_host_is_ours_if_it_is(case: str) -> None:
    assert is_admitted(allowing(), asked(host=GOOD_HOSTS[case]))


@pytest.mark.parametrize("case", BAD_HOSTS)
def test_a_host_is_foreign_if_it_is(case: str) -> None:
    door = allowing()
    # A second look must not find it among the known.
    assert [is_admitted(door, asked(host=BAD_HOSTS[case])) for _ in range(2)] == [False, False]


def test_a_request_without_host_is_refused() -> None:
    request = asked()
    request.headers.clear()
    request.table.clear()
    assert not is_admitted(guard(), request)


def test_the_name_that_is_listened_on_is_ours() -> None:
    door = guard(server=Server(host="Gateway.internal"))
    assert is_admitted(door, asked(host="gateway.internal:8484"))
    assert not is_admitted(guard(), asked(host="gateway.internal:8484"))


def test_hosts_that_were_found_good_are_remembered_within_a_limit() -> None:
    door = guard()
    for count in range(2 * access._HOSTS_LIMIT):
        assert is_admitted(door, asked(host=f"h{count}.localhost"))
    assert len(door._good) == access._HOSTS_LIMIT


@pytest.mark.parametrize(
    ("host", "name"),
    [
        (b"A.Example:80", "a.example"),
        (b" a.example. ", "a.example"),
        (b"[::1]:80", "::1"),
        (b"[::1]x", "[::1]x"),
        (b"a:b", "a:b"),
        (b"a:", "a:"),
    ],
)
def test_a_hosts_name_is_without_port_brackets_and_capitals(host: bytes, name: str) -> None:
    assert hostname(host) == name


# Origins.

ORIGINS: dict[str, tuple[list[tuple[str, str]], bool]] = {
    "no browser": ([], True),
    "a page of ours": ([("origin", f"http://{OURS}")], True),
    "a page of ours behind TLS": ([("origin", f"https://{OURS}")], True),
    "a page of ours in capitals": ([("origin", "HTTP://LOCALHOST:8484")], True),
    "an allowed page": ([("origin", "https://app.example.org")], True),
    "an allowed page in capitals": ([("origin", "https://App.Example.org")], True),
    "an allowed page from another site": (
        [("origin", "https://app.example.org"), ("sec-fetch-site", "cross-site")],
        True,
    ),
    "another page": ([("origin", "https://evil.example")], False),
    "a sandboxed page": ([("origin", "null")], False),
    "an empty origin": ([("origin", "")], False),
    "another port of this machine": ([("origin", "http://localhost:3000")], False),
    "the same machine by another name": ([("origin", "http://127.0.0.1:8484")], False),
    "an allowed page over another scheme": ([("origin", "http://app.example.org")], False),
    "an allowed page on another port": ([("origin", "https://app.example.org:8443")], False),
    "a name that begins with an allowed one": ([("origin", "https://app.example.org.evil.example")], False),
    "an allowed page as user information": ([("origin", "https://app.example.org@evil.example")], False),
    "our host behind another scheme": ([("origin", f"ftp://{OURS}")], False),
    "our host without a scheme": ([("origin", OURS)], False),
    "an extension": ([("origin", "chrome-extension://abcdef")], False),
    "an image on another site's page": ([("sec-fetch-site", "cross-site")], False),
    "an image on a page of this site": ([("sec-fetch-site", "same-site")], False),
    "another site, in capitals": ([("sec-fetch-site", "Cross-Site")], False),
    "a word that browsers may invent": ([("sec-fetch-site", "elsewhere")], False),
    "an address typed by the user": ([("sec-fetch-site", "none")], True),
    "a script of ours": ([("sec-fetch-site", "same-origin")], True),
    "a script of ours, in capitals": ([("sec-fetch-site", "Same-Origin")], True),
    "an allowed page with a slash at its end": ([("origin", "https://app.example.org/")], True),
    "another page that claims to be of ours": (
        [("origin", "https://evil.example"), ("sec-fetch-site", "same-origin")],
        False,
    ),
}


@pytest.mark.parametrize("key", ["", "secret"], ids=["without keys", "with keys"])
@pytest.mark.parametrize("case", ORIGINS)
def test_a_web_page_may_call_if_it_is_ours_or_allowed(case: str, key: str) -> None:
    headers, good = ORIGINS[case]
    door = guard(*filter(None, [key]), server=Server(allowed_origins=("https://App.example.org/",)))
    assert is_admitted(door, asked(*headers)) is good


def test_a_rebound_page_is_known_by_its_host_although_it_is_its_own_origin() -> None:
    request = asked(("origin", "http://evil.example:8484"), ("sec-fetch-site", "same-origin"), host="evil.example:8484")
    assert not is_admitted(guard(), request)


def test_a_page_of_ours_is_known_whatever_the_case_of_the_host() -> None:
    assert is_admitted(guard(), asked(("origin", "http://localhost:8484"), host="LocalHost:8484"))


@pytest.mark.parametrize("origin", ["https://App.Example.org", "https://app.example.org/"])
def test_an_allowed_page_is_greeted_by_the_name_it_gave(origin: str) -> None:
    door = guard(server=Server(allowed_origins=("https://app.example.org",)))
    assert (b"access-control-allow-origin", origin.encode()) in door.greeting(asked(("origin", origin)))


def test_only_an_allowed_page_is_greeted() -> None:
    door = guard(server=Server(allowed_origins=("https://app.example.org",)))
    told = dict(door.greeting(asked(("origin", "https://app.example.org"))))
    assert told[b"access-control-allow-origin"] == b"https://app.example.org"
    assert told[b"vary"] == b"Origin"
    assert b"access-control-allow-credentials" not in told
    for other in ("https://evil.example", "null", "*", f"http://{OURS}"):
        assert door.greeting(asked(("origin", other))) == []
    assert door.greeting(asked()) == []


def test_an_allowed_page_learns_which_headers_it_may_send() -> None:
    door = guard(server=Server(allowed_origins=("https://app.example.org",)))
    wanted = ("access-control-request-headers", "authorization, x-stainless-os")
    told = dict(door.preflight(asked(("origin", "https://app.example.org"), wanted)))
    assert told[b"access-control-allow-headers"] == b"authorization, x-stainless-os"
    assert b"POST" in told[b"access-control-allow-methods"]
    assert told[b"access-control-allow-origin"] == b"https://app.example.org"


# Keys.

CREDENTIALS: dict[str, tuple[list[tuple[str, str]], str, bytes | None]] = {
    "x-api-key alone": ([("x-api-key", "k")], CHAT, b"k"),
    "a bearer alone": ([("authorization", "Bearer k")], MESSAGES, b"k"),
    "a bearer in small letters": ([("authorization", "bearer k")], CHAT, b"k"),
    "a bearer in capitals, with blanks": ([("authorization", "BEARER   k  ")], CHAT, b"k"),
    "both on Messages": ([("authorization", "Bearer b"), ("x-api-key", "x")], MESSAGES, b"x"),
    "both on Chat": ([("authorization", "Bearer b"), ("x-api-key", "x")], CHAT, b"b"),
    "both on Responses": ([("authorization", "Bearer b"), ("x-api-key", "x")], RESPONSES, b"b"),
    "an empty x-api-key beside a bearer": ([("authorization", "Bearer b"), ("x-api-key", "")], MESSAGES, b"b"),
    "an empty bearer beside an x-api-key": ([("authorization", "Bearer "), ("x-api-key", "x")], CHAT, b"x"),
    "a key without Bearer": ([("authorization", "k")], CHAT, None),
    "another scheme": ([("authorization", "Basic az1r")], CHAT, None),
    "another scheme beside an x-api-key": ([("authorization", "Basic az1r"), ("x-api-key", "x")], CHAT, b"x"),
    "an empty bearer on Chat": ([("authorization", "Bearer ")], CHAT, None),
    "an empty bearer on Messages": ([("authorization", "Bearer ")], MESSAGES, None),
    "an empty x-api-key": ([("x-api-key", "")], MESSAGES, None),
    "nothing": ([], MESSAGES, None),
}


@pytest.mark.parametrize("case", CREDENTIALS)
def test_the_key_is_read_from(case: str) -> None:
    headers, protocol, key = CREDENTIALS[case]
    assert credential(asked(*headers).table, protocol) == key


def test_a_known_key_is_named_and_an_unknown_one_refused() -> None:
    door = guard("one", "two")
    found = door.identify(asked(("x-api-key", "two")), MESSAGES)
    assert found is not None
    assert found.name == "of two"
    for wrong in ("three", "TWO", "two ", "tw", sha256(b"two").hexdigest(), "t\xf6"):
        with pytest.raises(ClientError) as caught:
            door.identify(asked(("x-api-key", wrong)), MESSAGES)
        assert caught.value.status == 401
        assert wrong not in caught.value.message


@pytest.mark.parametrize("headers", [[], [("x-api-key", "")], [("authorization", "Bearer ")], [("authorization", "k")]])
@pytest.mark.parametrize("protocol", [MESSAGES, CHAT])
def test_no_key_is_told_how_to_send_one(headers: list[tuple[str, str]], protocol: str) -> None:
    # Not even a key that is the empty text can be sent by sending nothing.
    with pytest.raises(ClientError, match="x-api-key or as Authorization: Bearer") as caught:
        guard("", "real").identify(asked(*headers), protocol)
    assert caught.value.status == 401


def test_a_right_key_does_not_help_a_wrong_one_that_goes_before() -> None:
    request = asked(("x-api-key", "wrong"), ("authorization", "Bearer right"))
    with pytest.raises(ClientError):
        guard("right").identify(request, MESSAGES)
    assert guard("right").identify(request, CHAT) is not None


def test_without_keys_nobody_is_asked_for_one() -> None:
    assert guard().open
    assert guard().identify(asked(("x-api-key", "anything")), CHAT) is None
    assert not guard("one").open


def test_a_key_is_asked_for_although_there_is_none() -> None:
    """All of them may have been revoked, and whether one is asked for is not their number."""
    page = SharedMemory()
    doors = (
        Guard(Settings(), Protection(requires_keys=True)),
        Guard(Settings(keys_table=True)),
        Guard(Settings(), Protection(), page),
    )
    assert [door.open for door in doors] == [False, False, True]
    # Another process has come to ask for keys: so does this one, from that moment on.
    page.record(Protection(requires_keys=True))
    for door in doors:
        with pytest.raises(ClientError) as caught:
            door.identify(asked(("x-api-key", "anything")), CHAT)
        assert caught.value.status == 401


# Ends and addresses.

LISTED = Rights(addresses=("10.0.0.0/8", "2001:db8::/32"))


def limited(rights: Rights, *proxies: str, expires: float | None = None, now: float = 0.0) -> Guard:
    """What stands at the door of a gateway with one key, "key", which is limited."""
    key = replace(holder("limited", sha256(b"key").digest(), rights=rights), expires=expires)
    return Guard(Settings(server=Server(trusted_proxies=proxies), keys=(key,)), now=lambda: now)


def from_peer(peer: str, *headers: tuple[str, str]) -> ServerRequest:
    request = asked(("x-api-key", "key"), *headers)
    request.peer = peer
    return request


@pytest.mark.parametrize(("now", "is_accepted"), [(99.9, True), (100.0, False), (1e9, False)])
def test_a_key_is_accepted_until_its_end(now: float, is_accepted: bool) -> None:
    door = limited(Rights(), expires=100.0, now=now)
    # Twice: a key whose text was found before ends, too.
    for _ in range(2):
        if is_accepted:
            assert door.identify(from_peer("127.0.0.1"), CHAT) is not None
        else:
            with pytest.raises(ClientError, match="is expired") as caught:
                door.identify(from_peer("127.0.0.1"), CHAT)
            assert caught.value.status == 401


ADDRESSES: dict[str, tuple[str, list[tuple[str, str]], bool]] = {
    "a peer of the list": ("10.1.2.3", [], True),
    "a peer of the list, as IPv6 writes it": ("::ffff:10.1.2.3", [], True),
    "IPv6": ("2001:db8::1", [], True),
    "another peer": ("192.0.2.1", [], False),
    "another peer that claims to be one": ("192.0.2.1", [("x-forwarded-for", "10.1.2.3")], False),
    "another peer that claims it elsewhere": ("192.0.2.1", [("cf-connecting-ip", "10.1.2.3")], False),
    "a peer of the list that passes on another's": ("10.1.2.3", [("x-forwarded-for", "10.9.9.9")], False),
    "a peer of the list that is a proxy": ("10.1.2.3", [("via", "1.1 proxy")], False),
    "a trusted proxy": ("127.0.0.1", [("x-forwarded-for", "10.1.2.3")], True),
    "a trusted proxy, and an invented address": ("127.0.0.1", [("x-forwarded-for", "10.1.2.3, 192.0.2.1")], False),
    "two trusted proxies": ("127.0.0.1", [("x-forwarded-for", "10.1.2.3, 127.0.0.2")], True),
    "a trusted proxy that names nothing": ("127.0.0.1", [], False),
    "a trusted proxy of the list that names nothing": ("10.0.0.1", [], False),
    "a trusted proxy that names trusted ones alone": ("10.0.0.1", [("x-forwarded-for", "127.0.0.2")], False),
    "a trusted proxy that names no address": ("127.0.0.1", [("x-forwarded-for", "10.1.2.3, unknown")], False),
    "a socket without an address": ("", [], False),
}


@pytest.mark.parametrize("case", ADDRESSES)
def test_pitfall_738_a_list_of_addresses_lets_in(case: str) -> None:
    peer, headers, is_accepted = ADDRESSES[case]
    door = limited(LISTED, "127.0.0.0/8", "10.0.0.1")
    for _ in range(2):
        if is_accepted:
            assert door.identify(from_peer(peer, *headers), CHAT) is not None
        else:
            with pytest.raises(ClientError, match="from this address") as caught:
                door.identify(from_peer(peer, *headers), CHAT)
            assert caught.value.status == 403


def test_a_key_without_a_list_of_addresses_is_used_from_everywhere() -> None:
    for peer in ("", "192.0.2.1"):
        assert limited(Rights()).identify(from_peer(peer, ("x-forwarded-for", "x")), CHAT) is not None


# Keys that cannot be read, unknown keys, and keys that changed meanwhile.


class Unread(IdentityTable):
    """A table whose database was never read."""

    was_read = False

    def look_up(self, text: bytes) -> LookUp:
        return UnreadableKey()


def test_pitfall_447_while_keys_cannot_be_read_nobody_is_let_in_and_nobody_told_that_a_key_is_wrong() -> None:
    doors = (Guard(Settings(), identities=Unread()), Guard(Settings(keys_table=True), identities=Unread()))
    for door in doors:
        with pytest.raises(KeysUnreadable) as caught:
            door.identify(from_peer("127.0.0.1"), CHAT)
        assert caught.value.retry_after > 0
        with pytest.raises(KeysUnreadable):
            door.check_again(holder("ann", b"digest"), _SENT, CHAT)


def test_unknown_keys_are_limited_by_address_and_known_ones_never() -> None:
    door = limited(Rights(), "127.0.0.1")
    unknown = [("x-api-key", "unknown"), ("x-forwarded-for", "192.0.2.1")]

    def refused(*headers: tuple[str, str]) -> type[DragomanError]:
        request = asked(*headers)
        with pytest.raises(DragomanError) as caught:
            door.identify(request, MESSAGES)
        return type(caught.value)

    assert {refused(*unknown) for _ in range(MAX_ATTEMPTS)} == {ClientError}
    assert {refused(*unknown) for _ in range(3)} == {UnknownKeysLimited}
    # A known key is let in from the same address; another address is another client; a mistyped key is no attempt.
    assert door.identify(asked(("x-api-key", "key"), unknown[1]), MESSAGES) is not None
    assert refused(unknown[0], ("x-forwarded-for", "192.0.2.2")) is ClientError
    assert refused(("x-api-key", "dgm_" + 49 * "x"), unknown[1]) is ClientError


def test_a_key_with_a_wrong_checksum_is_named_as_such() -> None:
    text = new_key()
    wrong = text[:-1] + ("a" if text[-1] != "a" else "b")
    with pytest.raises(ClientError, match="mistyped") as caught:
        guard("key").identify(asked(("x-api-key", wrong)), CHAT)
    assert (caught.value.status, wrong in caught.value.message) == (401, False)


_SENT = {b"x-api-key": b"key"}
WIDE = Rights(models=("a", "b"), providers=("p", "q"), concurrency=4)
CHANGES: dict[str, tuple[Rights, bool]] = {
    "nothing": (WIDE, True),
    "more models": (Rights(models=("*",), providers=("p", "q")), True),
    "more at a time": (replace(WIDE, concurrency=9), True),
    "fewer at a time": (replace(WIDE, concurrency=1), True),
    "fewer models": (replace(WIDE, models=("a",)), False),
    "fewer providers": (replace(WIDE, providers=("p",)), False),
    "addresses": (replace(WIDE, addresses=("10.0.0.0/8",)), False),
    "paths": (replace(WIDE, paths=("models",)), False),
    "strictness": (replace(WIDE, strict=True), False),
    "a viewer": (replace(WIDE, role=VIEWER), False),
    "an administrator": (replace(WIDE, role=ADMIN), True),
}


@pytest.mark.parametrize("case", CHANGES)
def test_a_key_is_checked_again_for_what_was_changed_meanwhile(case: str) -> None:
    rights, goes_on = CHANGES[case]
    door = guard()
    key = holder("ann", sha256(b"key").digest(), rights=WIDE)
    door.identities.configure([replace(key, rights=rights)])
    if goes_on:
        door.check_again(key, _SENT, CHAT)
    else:
        with pytest.raises(ClientError, match="narrowed") as caught:
            door.check_again(key, _SENT, CHAT)
        assert caught.value.status == 403


def test_a_key_that_ended_or_was_removed_meanwhile_is_refused() -> None:
    door = limited(Rights(), expires=100.0)
    key = door.identify(from_peer("127.0.0.1"), CHAT)
    assert key is not None
    door.check_again(key, _SENT, CHAT)
    door._now = lambda: 100.0
    with pytest.raises(ClientError, match="expired"):
        door.check_again(key, _SENT, CHAT)
    door.identities.configure([])
    with pytest.raises(ClientError, match="removed") as caught:
        door.check_again(key, _SENT, CHAT)
    assert caught.value.status == 401


def test_a_text_that_was_replaced_meanwhile_is_refused() -> None:
    door = guard("key")
    key = door.identify(asked(("x-api-key", "key")), MESSAGES)
    assert key is not None
    # The same identity, with another text: of a slow request the former text is looked at again.
    newer = sha256(b"newer").digest()
    door.identities.configure([replace(key, digests=(AcceptedDigest(digest=newer),))])
    with pytest.raises(ClientError, match="removed"):
        door.check_again(key, _SENT, MESSAGES)
    door.check_again(key, {b"authorization": b"Bearer newer"}, CHAT)


def test_owners_are_several_once_any_process_knew_several() -> None:
    assert not guard("one").several_owners
    assert guard("one", "two").several_owners
    assert Guard(Settings(), Protection(several_elsewhere=True)).several_owners
    # The key of the command line belongs to the operator, and is another holder's all the same.
    launch = holder("launch", b"l" * 32, owner=b"")
    one = holder("one", b"o" * 32)
    door = Guard(Settings(keys=(launch, one)))
    assert (door.several_owners, door.several_keys) == (False, True)
    page = SharedMemory()
    alone = Guard(Settings(keys=(one,)), page=page)
    assert (alone.several_owners, alone.several_keys) == (False, False)
    page.record(Protection(several_elsewhere=True))
    assert (alone.several_owners, alone.several_keys) == (True, True)
