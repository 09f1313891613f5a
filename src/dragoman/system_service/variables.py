"""Environment variables that a service needs: those of the configuration, keys of the catalogue, proxies, certificates,
cloud SDKs, and the user's directories."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

from dragoman.config.config_file import ConfigFile
from dragoman.config.environment import names_in
from dragoman.config.parsing import parse
from dragoman.providers.catalogue import CatalogueEntry

_PROXIES = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY")
_CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
_DIRECTORIES = ("XDG_CONFIG_HOME", "XDG_STATE_HOME")
# Prefixes, because cloud SDKs read many variables, and new ones with every release.
_CLOUDS = ("AWS_", "GOOGLE_", "CLOUDSDK_")
# A credential that expires within hours is useless to a service.
SHORT_LIVED = "AWS_SESSION_TOKEN"


def named_variables(file: ConfigFile | None) -> tuple[str, ...]:
    if file is None:
        return ()
    values, _ = parse(str(file), file.read())
    return tuple(dict.fromkeys(names_in(values)))


def variables_for(
    named: tuple[str, ...], environ: Mapping[str, str], catalogue: Mapping[str, CatalogueEntry]
) -> dict[str, str]:
    keys = (name for listing in catalogue.values() for name in chain(listing.env, *listing.option_env.values()))
    proxies = (name for proxy in _PROXIES for name in (proxy, proxy.lower()))
    clouds = (name for name in sorted(environ) if name.startswith(_CLOUDS))
    names = dict.fromkeys((*named, *keys, *proxies, *_CERTIFICATES, *_DIRECTORIES, *clouds))
    return {name: environ[name] for name in names if environ.get(name, "").strip()}
