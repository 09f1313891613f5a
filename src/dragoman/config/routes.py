"""Routes: `[models]`, which names clients may use and where each of them goes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from dragoman.config import file_schema
from dragoman.config.environment import Unset
from dragoman.config.nearest_name import nearest
from dragoman.config.nesting import NamedTargets, Patterns, check_nesting
from dragoman.config.providers import missing_at
from dragoman.config.settings import Missing, RouteConfig, RouteRule
from dragoman.config.tables import ConfigTable
from dragoman.config.toml_lines import KeyPath, dotted
from dragoman.config.values import is_model, quoted, type_name
from dragoman.providers.catalogue import CatalogueEntry, aliased
from dragoman.providers.provider import split_protocol
from dragoman.routing.policies import POLICIES
from dragoman.routing.route import RuleCondition
from dragoman.sessions.classes import CLASSES, is_class

_EXAMPLE = f"example: {file_schema.ROUTE['to'].example}"
_OPTIONS = {name: kind for name, kind in file_schema.ROUTE.items() if name not in ("to", "targets")}
# Where each target is written, with its text.
_TargetPaths: TypeAlias = dict[KeyPath, str]


class _TargetList(Struct, frozen=True, kw_only=True):
    """The targets of a route or a rule, and their weights."""

    paths: _TargetPaths
    weights: tuple[int, ...] = ()

    @property
    def targets(self) -> tuple[str, ...]:
        return tuple(self.paths.values())


class _Reader:
    """Reads `[models]`; invalid routes are reported there."""

    def __init__(
        self,
        models: ConfigTable,
        providers: Mapping[str, Collection[str]],
        catalogue: Mapping[str, CatalogueEntry],
        keys: Iterable[str],
        *,
        discover: bool,
        local: Collection[str],
    ) -> None:
        self._models = models
        self._local = local
        self._discover = discover
        # Providers that would be there if the environment had their key.
        self.absent: dict[str, Missing] = {}
        self._providers = tuple(providers)
        self._protocols = providers
        self._catalogue = catalogue
        self._keys = tuple(keys)
        self._patterns = Patterns(models.values)

    def routes(self) -> Iterator[RouteConfig]:
        """All lines that can be used, in their order."""
        named = {}
        for pattern, value in self._models.values.items():
            route = self._route(pattern, value)
            if route is not None:
                texts = (*route.targets, *(text for rule in route.rules for text in rule.targets))
                others = [self._named_route(text) for text in texts]
                routes = tuple(other for other in others if other is not None)
                named[pattern] = NamedTargets(targets=len(texts) - len(routes), routes=routes)
                yield route
        check_nesting(self._models, named)

    def _route(self, pattern: str, value: object) -> RouteConfig | None:
        path = (*self._models.path, pattern)
        if not is_model(pattern):
            problem = "expected a model name, got an empty one or one with blanks"
            self._models.complain(pattern, problem, "write the name as clients send it")
            return None
        if pattern.count("*") > 1:
            self._models.complain(pattern, "has more than one * on a side", "keep one")
            return None
        if isinstance(value, dict):
            return self._table(pattern, value)
        target_list = None
        if isinstance(value, str):
            target_list = _TargetList(paths={path: value})
        elif isinstance(value, list):
            target_list = _read_target_list(self._models, pattern, path)
        else:
            problem = f"expected a string, an array of strings or a table, got {type_name(value)}"
            self._models.complain(pattern, problem, 'example: "claude-*" = "anthropic/*"')
        if target_list is None or not self._can_use(target_list, pattern):
            return None
        return RouteConfig(pattern=pattern, targets=target_list.targets)

    def _table(self, pattern: str, value: dict[str, object]) -> RouteConfig | None:
        allowed_keys = (*file_schema.ROUTE, "rules")
        if not value:
            self._models.complain(pattern, "is an empty table", f"example: to = {file_schema.ROUTE['to'].example}")
            return None
        if not set(value) & set(allowed_keys):
            # `gpt-5.1 = …` without quotes is a table called gpt-5 to TOML.
            inner = ".".join((pattern, *list(value)[:1]))
            remedy = f'put names with dots in quotes: "{inner}" = …'
            self._models.complain(pattern, "is a table without to and targets", remedy)
            return None
        table = self._models.table(pattern)
        table.refuse_others(allowed_keys)
        options = table.fill(file_schema.RouteTable, _OPTIONS)
        policy = options.policy if value.get("policy", options.policy) == options.policy else ""
        target_list = self._read_targets(table, pattern, policy)
        rules = self._rules(table, pattern, policy)
        if target_list is None:
            return None
        return RouteConfig(
            pattern=pattern,
            targets=target_list.targets,
            weights=target_list.weights,
            rules=rules,
            policy=options.policy,
            sticky=options.sticky,
            retries=options.retries,
            first_byte=options.first_byte,
            max_cost=options.max_cost,
            strict=options.strict,
            fallback_on_refusal=options.fallback_on_refusal,
        )

    def _read_targets(self, table: ConfigTable, pattern: str, policy: str) -> _TargetList | None:
        """The value of `to` or `targets` of a route or a rule; None if that cannot be used."""
        if table.has("to") and table.has("targets"):
            table.complain("targets", "stands beside to", "keep one of them, to for one target")
            return None
        if not table.has("to") and not table.has("targets"):
            table.complain("to", "is missing", f"example: to = {file_schema.ROUTE['to'].example}")
            return None
        if table.has("to"):
            text = table.take("to", file_schema.TO)
            target_list = None if text is None else _TargetList(paths={(*table.path, "to"): text})
        else:
            target_list = _read_target_list(table, "targets", (*table.path, "targets"))
            if target_list is not None:
                _check_weights(table, target_list, policy)
        return target_list if target_list is not None and self._can_use(target_list, pattern) else None

    def _rules(self, route_table: ConfigTable, pattern: str, policy: str) -> tuple[RouteRule, ...]:
        rules = route_table.values.get("rules", [])
        remedy = f"begin a line with [[{dotted((*route_table.path, 'rules'))}]]"
        if not isinstance(rules, list):
            route_table.complain("rules", f"expected an array of tables, got {type_name(rules)}", remedy)
            return ()
        read: list[RouteRule] = []
        for position, values in enumerate(rules):
            path = (*route_table.path, "rules", position)
            if not isinstance(values, dict):
                route_table.problems.add(path, f"expected a table, got {type_name(values)}", remedy)
                continue
            table = ConfigTable(values, path, route_table.problems)
            table.refuse_others(file_schema.RULE)
            when = self._when(table)
            target_list = self._read_targets(table, pattern, policy)
            earlier = next((rule for rule in read if rule.when == when), None)
            if earlier is not None:
                problem = "has the same conditions as an earlier rule, which goes first"
                table.complain("when", problem, "remove one of them, or add a condition")
            if when is not None and target_list is not None:
                read.append(RouteRule(when=when, targets=target_list.targets, weights=target_list.weights))
        return tuple(read)

    def _when(self, rule: ConfigTable) -> RuleCondition | None:
        if not rule.has("when"):
            rule.complain("when", "is missing", f"example: when = {file_schema.RULE['when'].example}")
        if not rule.take("when", file_schema.RULE["when"]):
            return None
        table = rule.table("when")
        table.refuse_others(file_schema.WHEN)
        when = table.fill(RuleCondition, file_schema.WHEN)
        if when.key and when.key not in self._keys:
            close = nearest(when.key, self._keys)
            remedy = f"did you mean {dotted((close,))}?" if close else f"add [keys.{dotted((when.key,))}]"
            table.complain("key", f"names the key {quoted(when.key)}, which does not exist", remedy)
        if when.thread and not is_class(when.thread):
            close = nearest(when.thread, CLASSES)
            remedy = f'did you mean "{close}"?' if close else f"write one of {', '.join(CLASSES)}"
            table.complain("thread", f"names the thread class {quoted(when.thread)}, which does not exist", remedy)
        return when

    def _can_use(self, target_list: _TargetList, pattern: str) -> bool:
        """Whether all targets exist, each once. Others are reported."""
        seen: set[str] = set()
        is_good = True
        for path, text in target_list.paths.items():
            problem = self._problem(text, pattern, path)
            target = split_protocol(text)[0]
            if problem is None and target in seen:
                problem = f"names {quoted(target)} once more", "remove it; retries repeats the call to the same target"
            if problem is not None:
                self._models.problems.add(path, *problem)
                is_good = False
            seen.add(target)
        return is_good

    def _problem(self, text: str, pattern: str, path: KeyPath) -> tuple[str, str] | None:
        """The problem of one target, and the remedy."""
        provider, slash, model = text.partition("/")
        if text.count("*") > 1:
            return "has more than one * on a side", "keep one"
        if "*" in text and "*" not in pattern:
            return "has a * in its target alone", "put one into the name, too, or name the model"
        if slash and provider in self._providers and is_model(model):
            protocol, protocols = split_protocol(model)[1], self._protocols[provider]
            if not protocol or not protocols or protocol in protocols:
                return None
            return (
                f"names the protocol {protocol}, which {provider} does not speak",
                f"it speaks {', '.join(protocols)}",
            )
        if is_model(text) and self._named_route(text) is not None:
            return ("has a * in the name of a route", "write provider/model there") if "*" in text else None
        if slash and provider and provider not in self._providers and is_model(model):
            if self._record_absent(provider, path):
                return None
            problem = f"names the provider {quoted(provider)}, which is not set up"
            return problem, self._set_up(provider, model)
        close = nearest(text, self._models.values)
        remedy = f"did you mean {dotted((close,))}?" if close and close != pattern else _EXAMPLE
        return f"expected provider/model or the name of another route, got {quoted(text)}", remedy

    def _record_absent(self, provider: str, path: KeyPath) -> bool:
        """Whether a provider is known that is there as soon as its key is in the environment."""
        listing = self._catalogue.get(provider)
        if listing is None or not listing.env or not self._discover:
            return False
        if provider not in self.absent:
            unset = Unset(listing.env[0], instead=f"add [providers.{dotted((provider,))}]")
            missing = missing_at(path, unset, dotted((provider,)), self._models)
            self.absent[provider] = replace(missing, has_table=False)
        return True

    def _set_up(self, provider: str, model: str) -> str:
        """How to configure a missing provider, or the probably meant one."""
        listing = self._catalogue.get(provider)
        if listing is not None:
            variables = (f"export {name}=…" for name in listing.env[:1])
            return " or ".join([f"add [providers.{dotted((provider,))}]", *variables])
        # A common name of a provider of the catalogue, or a slip.
        common = (entry.name for entry in aliased(provider) if entry.name in self._catalogue)
        close = next(common, None) or nearest(provider, self._providers)
        if close is None:
            serving = (name for name, other in self._catalogue.items() if Patterns(other.serves).match(model))
            close = next(serving, None) or nearest(provider, self._catalogue)
        if close is None:
            names = ", ".join(name for name in self._providers if name not in self._local)
            return f"known are {names}; others are added with [providers.{dotted((provider,))}]"
        remedy = f"did you mean {dotted((close,))}?"
        return remedy if close in self._providers else f"{remedy} Then {self._set_up(close, model)}"

    def _named_route(self, text: str) -> str | None:
        """The route that a target names; a model of a provider takes precedence."""
        provider, slash, model = text.partition("/")
        if slash and model and provider in self._providers:
            return None
        return text if text in self._models.values else self._patterns.match(text)


class ReadRoutes(Struct, frozen=True, kw_only=True):
    """All of `[models]`, and the providers in it that lack a key."""

    routes: tuple[RouteConfig, ...]
    absent: Mapping[str, Missing]


def read_routes(
    models: ConfigTable,
    providers: Mapping[str, Collection[str]],
    catalogue: Mapping[str, CatalogueEntry],
    keys: Iterable[str],
    *,
    discover: bool = True,
    local: Collection[str] = (),
) -> ReadRoutes:
    """The routes of `[models]` in their order. `providers` have their protocols, none if the table is invalid; `keys`
    are names for rules. Those of `local` may not run, and are not suggested. With `discover`, a provider of the
    catalogue may be named if it lacks nothing but a key in the environment."""
    reader = _Reader(models, providers, catalogue, keys, discover=discover, local=local)
    return ReadRoutes(routes=tuple(reader.routes()), absent=reader.absent)


def _read_target_list(table: ConfigTable, name: str, path: KeyPath) -> _TargetList | None:
    """A list of targets, or a table of them with their weights."""
    targets = table.take(name, file_schema.TARGETS)
    if targets is None:
        return None
    if isinstance(targets, dict):
        return _TargetList(paths={(*path, text): text for text in targets}, weights=tuple(targets.values()))
    return _TargetList(paths={(*path, position): text for position, text in enumerate(targets)})


def _check_weights(table: ConfigTable, target_list: _TargetList, policy: str) -> None:
    if not policy:
        # It is invalid, which is reported.
        return
    weighted = POLICIES[policy].weights
    if target_list.weights and not weighted:
        others = " or ".join(f'policy = "{name}"' for name, other in POLICIES.items() if other.weights)
        table.complain("targets", f"has weights, which {policy} does not use", f"write an array, or {others}")
    elif weighted and not target_list.weights:
        table.complain("targets", "has no weights", f"example: targets = {file_schema.WEIGHTS}")
