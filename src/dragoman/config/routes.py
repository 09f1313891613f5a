"""Routes: `[models]`, which names clients may use and where each of them goes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dragoman.config import file_schema
from dragoman.config.settings import Line
from dragoman.config.tables import Table, meant
from dragoman.config.toml_lines import dotted
from dragoman.config.values import found, shown
from dragoman.providers.catalogue import Listing


def read_routes(models: Table, providers: Iterable[str], catalogue: Mapping[str, Listing]) -> tuple[Line, ...]:
    """The lines of `[models]` in their order; `providers` are the names that a target may have."""
    routes = []
    for pattern, value in models.values.items():
        target, strict = _target(models, pattern, value)
        if target is not None:
            route = _route(models, pattern, target, strict)
            if route is not None:
                _check_provider(models, route, tuple(providers), catalogue)
                routes.append(route)
    return tuple(routes)


def _target(models: Table, pattern: str, value: object) -> tuple[str | None, bool]:
    """The target of one line and whether it is strict; None if it cannot be used, which is noted."""
    if isinstance(value, str):
        return value, False
    if not isinstance(value, dict):
        problem = f"expected a target in quotes or a table, found {found(value)}"
        models.complain(pattern, problem, 'for example "claude-*" = "anthropic/*"')
        return None, False
    if "to" not in value and not set(value) & set(file_schema.ROUTE):
        # `gpt-5.1 = …` without quotes is a table called gpt-5 to TOML.
        inner = ".".join((pattern, *list(value)[:1]))
        models.complain(pattern, "is a table without to", f'put names with dots in quotes: "{inner}" = …')
        return None, False
    line = models.table(pattern)
    line.refuse_others(file_schema.ROUTE)
    told = line.fill(file_schema.RouteTable, file_schema.ROUTE)
    if not line.has("to"):
        line.complain("to", "is missing", f"for example to = {file_schema.ROUTE['to'].example}")
    return told.to, told.strict


def _route(models: Table, pattern: str, target: str, strict: bool) -> Line | None:
    provider, slash, model = target.partition("/")
    problem = None
    if not _is_model(pattern):
        problem = ("expected a model name, found an empty one or one with blanks", "write the name as clients send it")
    elif not slash or not provider or not _is_model(model):
        problem = (f"expected provider/model, found {shown(target)}", 'for example "openai/gpt-5.1"')
    elif pattern.count("*") > 1 or model.count("*") > 1:
        problem = ("has more than one * on a side", "keep one")
    elif "*" in model and "*" not in pattern:
        problem = ("has a * in its target alone", "put one into the name, too, or name the model")
    if problem is not None:
        models.complain(pattern, *problem)
        return None
    return Line(pattern=pattern, targets=(target,), strict=strict)


def _is_model(name: str) -> bool:
    return bool(name) and name.isprintable() and " " not in name


def _check_provider(models: Table, route: Line, providers: tuple[str, ...], catalogue: Mapping[str, Listing]) -> None:
    """Note a target whose provider nobody knows, or one that is known but not set up."""
    provider = route.targets[0].partition("/")[0]
    if provider in providers:
        return
    listing = catalogue.get(provider)
    if listing is None:
        remedy = meant(provider, providers)
    else:
        ways = [f"add [providers.{dotted((provider,))}]", *(f"export {name}=…" for name in listing.env[:1])]
        remedy = " or ".join(ways)
    models.complain(route.pattern, f"names the provider {shown(provider)}, which is not set up", remedy)
