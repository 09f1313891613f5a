"""Advice: cause and remedy of a failure (decision 29). The operator's text names address, variable or setting; the
client's text only the provider. Neither holds anything of a prompt, or of a key but its name."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from difflib import get_close_matches
from urllib.parse import urlsplit

from msgspec import Struct

from dragoman.config.container import HOST, in_container
from dragoman.config.toml_lines import dotted
from dragoman.config.values import is_loopback
from dragoman.errors import (
    ConfigError,
    DragomanError,
    Exhausted,
    NoContent,
    NotListening,
    Overdue,
    Redirected,
    Stalled,
    TimedOut,
    Unconfigured,
    Unconnected,
    Unencrypted,
    Unnamed,
    Unresolved,
    Untrusted,
    UpstreamError,
)
from dragoman.http.address import locate
from dragoman.http.upstream_call import HeaderList, header
from dragoman.providers.provider import Endpoint, Provider
from dragoman.routing.attempt_outcome import AttemptOutcome

_NEAREST = 3
_MAX_NAME_LENGTH = 120
_PROVIDER = "the provider"


class Advice(Struct, frozen=True, kw_only=True):
    """Cause and remedy, for the operator and for any client; `is_permanent` if retries fail alike."""

    operator: str
    client: str
    is_permanent: bool = False


class Called(Struct, frozen=True, kw_only=True):
    """A failed call: its provider, model and key, and other known facts."""

    provider: Provider
    endpoint: Endpoint
    model: str = ""
    keys: tuple[str, ...] = ()
    models: Collection[str] = ()

    def __repr__(self) -> str:
        # The keys must not reach a log.
        return f"Called(provider={self.name!r}, endpoint={self.endpoint!r}, model={self.model!r})"

    @property
    def name(self) -> str:
        return self.provider.name

    @property
    def setting(self) -> str:
        """The setting of the provider's address."""
        return f"providers.{dotted((self.name,))}.base_url"

    @property
    def address(self) -> str:
        """The host that it is at, with its port; nothing if that is not written in one place."""
        try:
            return locate(self.endpoint.base_url)[0].host_header
        except ValueError:
            return ""

    @property
    def key(self) -> str:
        """The name of its key, or of the keys that were tried."""
        provider = self.provider
        names = provider.key_names or (f"providers.{dotted((self.name,))}.api_key",) * len(provider.keys)
        named = dict(zip(provider.keys, names, strict=True))
        return " and ".join(dict.fromkeys(named[key] for key in self.keys if key in named))


def of_error(error: DragomanError, called: Called) -> Advice | None:
    """The remedy for a call that failed on the network."""
    if isinstance(error, ConfigError):
        # Its message names files and settings, which are for the operator only.
        error = Unconfigured(f"{_PROVIDER} is not configured completely", remedy=str(error))
    if not isinstance(error, UpstreamError):
        return None
    for kind, advise in _ERRORS:
        if isinstance(error, kind):
            advice = advise(error, called)
            if advice is not None:
                return advice
    message = _named(error, called)
    return Advice(operator=message, client=message) if message != str(error) else None


def _named(error: UpstreamError, called: Called) -> str:
    """The message of an error, with the provider's name in it."""
    message = str(error)
    first = message[:1].lower() + message[1:]
    return first.replace(_PROVIDER, called.name, 1) if _PROVIDER in first else message


def _not_listening(error: UpstreamError, called: Called) -> Advice:
    name, place = called.name, error.address or called.address
    client = f"{name} refused the connection"
    host, port = _split(place)
    if not is_loopback(host):
        return Advice(
            operator=f"{name} at {place} refused the connection: is it up, and is the address right?", client=client
        )
    operator = f"{name} at {place} refused the connection: is it running?"
    if in_container():
        there = f"{HOST}:{port}" if port else HOST
        operator += f" In a container {host} is the container itself: if it runs on the host, it is at {there}"
    return Advice(operator=operator, client=client, is_permanent=True)


def _behind_proxy(error: UpstreamError, called: Called) -> Advice | None:
    if not error.proxied:
        return None
    name = called.name
    operator = f"{error} (the proxy at {error.address} is the way to {name}: see HTTPS_PROXY and NO_PROXY)"
    return Advice(operator=operator, client=f"{name} cannot be reached: {error}")


def _unnamed(error: UpstreamError, called: Called) -> Advice:
    name, (host, _) = called.name, _split(error.address or called.address)
    step = f"check {called.setting}, and the network"
    if host == HOST and in_container():
        step = f"start the container with --add-host {HOST}:host-gateway"
    return Advice(
        operator=f"there is no host {host}, where {name} is called: {step}",
        client=f"{name} cannot be reached: its host's name leads nowhere",
        is_permanent=True,
    )


def _unresolved(error: UpstreamError, called: Called) -> Advice:
    host, _ = _split(error.address or called.address)
    return Advice(
        operator=f"{host}, where {called.name} is, could not be looked up: no name server answers; is there a network?",
        client=f"{called.name} cannot be reached at present: its host's name could not be looked up",
    )


def _untrusted(error: UpstreamError, called: Called) -> Advice:
    place = error.address or called.address
    return Advice(
        operator=f"the certificate of {called.name} at {place} is not trusted, or not for this name: "
        f"check {called.setting}; SSL_CERT_FILE names authorities of your own",
        client=f"{called.name} cannot be called safely: its certificate is not trusted, or not for its name",
        is_permanent=True,
    )


def _unencrypted(error: UpstreamError, called: Called) -> Advice:
    place = error.address or called.address
    return Advice(
        operator=f"{called.name} at {place} did not agree on a TLS connection: is it https that is spoken there?",
        client=f"{called.name} did not agree on a TLS connection",
    )


def _exhausted(_: UpstreamError, called: Called) -> Advice:
    return Advice(
        operator=f"this machine has no socket, port or memory left for a call to {called.name}: see ulimit -n",
        client=f"the gateway has no room for a call to {called.name} at present",
    )


def _unconnected(error: UpstreamError, called: Called) -> Advice | None:
    if not error.address:
        return None
    step = "is the address right, and does a firewall let it through? timeouts.connect is the limit"
    return Advice(operator=f"{error.address}: {_named(error, called)}: {step}", client=_named(error, called))


def _unconfigured(error: UpstreamError, called: Called) -> Advice:
    problem = f"{called.name} is not configured completely"
    return Advice(operator=f"{problem}: {error.remedy}" if error.remedy else problem, client=problem, is_permanent=True)


def _redirected(error: UpstreamError, called: Called) -> Advice:
    led = f" to {error.address}" if error.address else ""
    client = f"{called.name} answered with a redirect, which is not followed"
    return Advice(
        operator=f"{called.name} at {called.address} answered with a redirect{led}, which is not followed: "
        f"is {called.setting} what its SDK takes?",
        client=client,
    )


def _limited(setting: str) -> Callable[[UpstreamError, Called], Advice]:
    def advise(error: UpstreamError, called: Called) -> Advice:
        message = _named(error, called)
        return Advice(operator=f"{message} ({setting} is the limit)", client=message)

    return advise


# First match wins, so kinds stand before their own parents.
_ERRORS: tuple[tuple[type[UpstreamError], Callable[[UpstreamError, Called], Advice | None]], ...] = (
    (UpstreamError, _behind_proxy),
    (Unconfigured, _unconfigured),
    (NotListening, _not_listening),
    (Unnamed, _unnamed),
    (Unresolved, _unresolved),
    (Untrusted, _untrusted),
    (Unencrypted, _unencrypted),
    (Exhausted, _exhausted),
    (Redirected, _redirected),
    (Unconnected, _unconnected),
    (NoContent, _limited("timeouts.content")),
    (Stalled, _limited("timeouts.idle")),
    (Overdue, _limited("timeouts.total")),
    (TimedOut, _limited("timeouts.first_byte")),
)


def of_refusal(kind: AttemptOutcome, called: Called, *, readable: bool = True) -> Advice | None:
    """The remedy for a call that the provider rejected; `readable` if the response had the error form of a protocol."""
    if kind in (AttemptOutcome.INVALID_KEY, AttemptOutcome.FORBIDDEN):
        return _of_key(kind, called)
    if kind is AttemptOutcome.INSUFFICIENT_QUOTA:
        return Advice(
            operator=f"{called.name} has no credit or quota left for {_key(called)}: see its billing page",
            client=f"{called.name} has no credit or quota left for this gateway",
        )
    if kind is AttemptOutcome.UNKNOWN_MODEL:
        return _of_model(called) if readable else _of_address(called)
    return None


def _key(called: Called) -> str:
    """The credential of a call, by its name."""
    if called.key:
        return called.key if called.key.startswith("key ") else f"the key {called.key}"
    if called.provider.auth in ("aws", "google"):
        return f"the credentials of {called.provider.auth} that were found"
    return f"the headers of providers.{dotted((called.name,))}" if called.provider.headers else "a call without a key"


def _of_key(kind: AttemptOutcome, called: Called) -> Advice:
    name = called.name
    if kind is AttemptOutcome.FORBIDDEN:
        return Advice(
            operator=f"{name} does not allow this with {_key(called)}: may that be used for this model?",
            client=f"{name} does not allow this with the key that the gateway has for it",
        )
    if not called.key and called.provider.auth in ("", "none") and not called.provider.headers:
        operator = f"{name} asks for a key and has none here: set providers.{dotted((name,))}.api_key"
        return Advice(operator=operator, client=f"{name} asks for a key, and the gateway has none for it")
    return Advice(
        operator=f"{name} refused {_key(called)}: is it right, and still good?",
        client=f"{name} refused the key that the gateway has for it",
    )


def _of_model(called: Called) -> Advice:
    if called.model in called.models:
        message = f"{called.name} lists the model {printable(called.model)}, and says that it is not there for this key"
        return Advice(operator=message, client=message)
    message = f"{called.name} does not have the model {printable(called.model)}"
    near = nearest(called.model, called.models)
    if near:
        message += f"; did you mean {', '.join(near)}?"
    elif called.provider.vendor_or_name == "ollama":
        message += f": ollama pull {printable(called.model)[1:-1]}"
    return Advice(operator=message, client=message)


def _of_address(called: Called) -> Advice:
    return Advice(
        operator=f"{called.name} has nothing at this path of {called.address}: is {called.setting} what its SDK takes?",
        client=f"{called.name} has nothing at the address that the gateway calls",
    )


def without_key(name: str, variables: Iterable[str], *, discover: bool) -> Advice:
    """The remedy for a known provider without a key: one of the variables has its key."""
    variable = next(iter(variables), "")
    if not variable:
        problem, step = f"{name} is not set up here", f"add [providers.{dotted((name,))}] to the configuration"
    else:
        problem, step = f"{name} has no key here", f"set {variable}"
        if not discover:
            step += f", and add [providers.{dotted((name,))}] to the configuration"
    return Advice(operator=f"{problem}: {step}", client=problem, is_permanent=True)


def nearest(name: str, candidates: Iterable[str]) -> list[str]:
    """The names that come closest to one that leads nowhere."""
    return get_close_matches(name[:200], list(candidates), n=_NEAREST, cutoff=0.5)


def printable(name: str) -> str:
    """A name from outside in a form for messages: short and on one line."""
    cleaned = "".join(character if character.isprintable() else "?" for character in name[:_MAX_NAME_LENGTH])
    return f"`{cleaned}`"


def redirected(headers: HeaderList) -> Redirected:
    """The error that a redirect is: a key is good for one place, and goes to no other."""
    return Redirected("the provider answered with a redirect, which is not followed", address=_origin_of(headers))


def _origin_of(headers: HeaderList) -> str:
    """Where a redirect leads to, but for its path, which may hold anything."""
    try:
        parts = urlsplit((header(headers, b"location") or b"").decode("latin-1"))
    except ValueError:
        return ""
    host = parts.netloc.rpartition("@")[2]
    fine = parts.scheme in ("http", "https") and host and host.isascii() and host.isprintable()
    return f"{parts.scheme}://{host[:_MAX_NAME_LENGTH]}" if fine else ""


def _split(place: str) -> tuple[str, str]:
    """Host and port of a URL."""
    parts = urlsplit(f"//{place}")
    port = place.rpartition(":")[2] if not place.endswith("]") and ":" in place else ""
    return parts.hostname or place, port
