"""A gateway whose keys are limited in what they may use, and the requests by which a holder may try to use more."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256

from msgspec.structs import replace

from dragoman.config.settings import RouteConfig, Settings
from dragoman.identities.identity import Rights
from tests.gateway.harness import CHAT, MESSAGES, RESPONSES, House, Received, Reply, running, settings_for, whole
from tests.gateway.says import tells
from tests.identities.holders import NO_LIMITS, holder

KEY, OTHER_KEY = "a-limited-key-of-this-gateway", "another-key-of-this-gateway"
ROUTES = (
    RouteConfig(pattern="fast", targets=("messages/small", "chat/small")),
    RouteConfig(pattern="slow", targets=("chat/large",)),
    RouteConfig(pattern="chat/renamed", targets=("chat/small",)),
    RouteConfig(pattern="claude-*", targets=("messages/*",)),
    RouteConfig(pattern="embedder", targets=("chat/vectors", "all/vectors")),
)
PATH_OF = {"/v1/messages": MESSAGES, "/v1/chat/completions": CHAT, "/v1/responses": RESPONSES}


def answering(received: Received) -> Reply:
    """A provider that answers everything."""
    protocol = PATH_OF.get(received.target.partition("?")[0])
    return whole({"object": "list", "data": []}) if protocol is None else tells(protocol)


def limited(
    rights: Rights, change: Callable[[Settings], Settings] | None = None, other: Rights = NO_LIMITS
) -> Callable[[int], Settings]:
    """Settings with a key of these rights, and another, usually without limits: an account has several owners."""

    def settings(port: int) -> Settings:
        keys = (
            holder("limited", sha256(KEY.encode()).digest(), rights=rights),
            holder("other", sha256(OTHER_KEY.encode()).digest(), rights=other),
        )
        made = replace(settings_for(port), keys=keys, routes=ROUTES)
        return made if change is None else change(made)

    return settings


@contextmanager
def limited_house(
    rights: Rights, change: Callable[[Settings], Settings] | None = None, other: Rights = NO_LIMITS
) -> Iterator[House]:
    """A gateway in which `KEY` has these rights."""
    with running(answering, limited(rights, change, other)) as house:
        yield house


def send(house: House, method: str, path: str, body: object = None, **headers: str) -> tuple[int, str]:
    """The status and the error of a request with the limited key."""
    data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = house.ask(method, path, data, **{"authorization": f"Bearer {KEY}", **headers})
    if answer.status < 400:
        return answer.status, ""
    error = json.loads(answer.body)["error"]
    return answer.status, str(error["message"])
