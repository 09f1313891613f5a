"""Variables of the shell that a service needs: those that the configuration names, keys of the catalogue, proxies,
certificates, the clouds' own, and the user's directories."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dragoman.config.config_file import ConfigFile
from dragoman.config.environment import names_in
from dragoman.config.parsing import parse
from dragoman.providers.catalogue import CatalogueEntry

_PROXIES = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY")
_CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
_DIRECTORIES = ("XDG_CONFIG_HOME", "XDG_STATE_HOME")
# The clouds' libraries read many, and new ones with every release.
_CLOUDS = ("AWS_", "GOOGLE_", "CLOUDSDK_")
# A credential that ends within hours, which is no use to what runs for weeks.
SHORT_LIVED = "AWS_SESSION_TOKEN"


def named_variables(file: ConfigFile | None) -> tuple[str, ...]:
    """The variables that a configuration names, in its order."""
    if file is None:
        return ()
    values, _ = parse(str(file), file.read())
    return tuple(dict.fromkeys(names_in(values)))


def variables_for(
    named: tuple[str, ...], environ: Mapping[str, str], catalogue: Mapping[str, CatalogueEntry]
) -> dict[str, str]:
    """The variables that are set and that a service needs, with their values."""
    names = dict.fromkeys((*named, *_of_catalogue(catalogue), *_usual(), *_of_clouds(environ)))
    return {name: environ[name] for name in names if environ.get(name, "").strip()}


def _of_catalogue(catalogue: Mapping[str, CatalogueEntry]) -> Iterator[str]:
    for listing in catalogue.values():
        yield from listing.env
        for names in listing.option_env.values():
            yield from names


def _usual() -> Iterator[str]:
    for name in _PROXIES:
        yield from (name, name.lower())
    yield from _CERTIFICATES
    yield from _DIRECTORIES


def _of_clouds(environ: Mapping[str, str]) -> Iterator[str]:
    return (name for name in sorted(environ) if name.startswith(_CLOUDS))
