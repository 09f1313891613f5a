"""Items of hosted tools (§13). One item has call and result, which the model separates like other protocols."""

from __future__ import annotations

from collections.abc import Callable

from dragoman.errors import WireError
from dragoman.model.jsonvalue import JsonList, JsonObject, JsonValue, present
from dragoman.model.losses import Ledger, Place
from dragoman.model.parts import Extras, HostedCall, HostedKind, HostedResult, Seal, WebSource
from dragoman.protocols.openai_responses.shapes import (
    CODE_CALL,
    COMPLETED,
    FAILED,
    MCP_CALL,
    MCP_LISTING,
    NAME,
    WEB_SEARCH_CALL,
)
from dragoman.rules.extras import HOSTED_FEATURES
from dragoman.wire.fields import Fields
from dragoman.wire.json import decode, encode_text

Pair = tuple[HostedCall, HostedResult]

ITEM_TYPES = {
    HostedKind.WEB_SEARCH: WEB_SEARCH_CALL,
    HostedKind.CODE: CODE_CALL,
    HostedKind.MCP: MCP_CALL,
    HostedKind.MCP_LISTING: MCP_LISTING,
}


def decode_hosted(item: Fields, kind: str, model: str | None = None, vendor: str | None = None) -> Pair:
    """The call and the result of one item. The call carries the full item for the way back."""
    return _DECODERS[kind](item, model, vendor)


def _pair(
    item: Fields,
    kind: HostedKind,
    name: str,
    arguments: str,
    *,
    server: str | None = None,
    text: str | None = None,
    sources: tuple[WebSource, ...] = (),
    is_error: bool = False,
) -> Pair:
    item_id = item.optional_text("id")
    extras = Extras(origin=NAME, fields=item.value)
    is_error = is_error or (kind is not HostedKind.MCP_LISTING and item.optional_text("status") == FAILED)
    return (
        HostedCall(
            call_id=item_id or "", kind=kind, name=name, arguments=arguments, server=server, id=item_id, extras=extras
        ),
        HostedResult(call_id=item_id or "", kind=kind, text=text, sources=sources, is_error=is_error, id=item_id),
    )


def _decode_search(item: Fields, model: str | None, vendor: str | None) -> Pair:
    action = item.optional_fields("action") or Fields({}, (item.path, "action"))
    queries, page = action.texts("queries"), action.optional_text("url")
    query = action.optional_text("query") or next(iter(queries), None)
    arguments = present({"query": query, "url": page, "pattern": action.optional_text("pattern")})
    if len(queries) > 1:
        arguments["queries"] = [*queries]

    def source_of(url: str, title: str, body: JsonObject) -> WebSource:
        seal = Seal(origin=NAME, kind="web", body=body, model=model, vendor=vendor)
        return WebSource(url=url, title=title, seal=seal)

    sources = [
        source_of(one.optional_text("url") or "", one.optional_text("title") or "", one.value)
        for one in action.each("sources")
    ]
    if page and not sources:
        sources = [source_of(page, "", {"type": "url", "url": page})]
    return _pair(item, HostedKind.WEB_SEARCH, "web_search", encode_text(arguments), sources=tuple(sources))


def _decode_code(item: Fields, _model: str | None, _vendor: str | None) -> Pair:
    logs = [output.optional_text("logs") for output in item.each("outputs")]
    arguments = encode_text({"code": item.optional_text("code") or ""})
    text = "\n".join([log for log in logs if log is not None])
    return _pair(item, HostedKind.CODE, "code_interpreter", arguments, text=text)


def _decode_mcp(item: Fields, _model: str | None, _vendor: str | None) -> Pair:
    error = item.raw("error")
    return _pair(
        item,
        HostedKind.MCP,
        item.text("name"),
        item.optional_text("arguments") or "{}",
        server=item.optional_text("server_label"),
        text=item.optional_text("output") if error is None else _error_text(error),
        is_error=error is not None,
    )


def _error_text(error: JsonValue) -> str:
    if isinstance(error, str):
        return error
    match error:
        case {"message": str(message)}:
            return message
        case {"content": [{"text": str(text)}]}:
            return text
    return encode_text(error)


def _decode_listing(item: Fields, _model: str | None, _vendor: str | None) -> Pair:
    error = item.raw("error")
    tools: JsonList = item.optional_list("tools") or []
    text = encode_text(tools) if error is None else _error_text(error)
    server = item.optional_text("server_label")
    return _pair(item, HostedKind.MCP_LISTING, MCP_LISTING, "{}", server=server, text=text, is_error=error is not None)


_DECODERS: dict[str, Callable[[Fields, str | None, str | None], Pair]] = {
    WEB_SEARCH_CALL: _decode_search,
    CODE_CALL: _decode_code,
    MCP_CALL: _decode_mcp,
    MCP_LISTING: _decode_listing,
}
CALL_TYPES = frozenset(_DECODERS)


def encode_hosted(call: HostedCall, result: HostedResult | None) -> JsonObject:
    """One item, without its ID, for a call and its result. A call without a result has failed."""
    if call.extras is not None and call.extras.origin == NAME:
        return call.extras.fields
    failed = result is None or result.is_error
    written: JsonObject = {"type": ITEM_TYPES[call.kind]}
    text = result.text if result is not None else None
    match call.kind:
        case HostedKind.WEB_SEARCH:
            written["action"] = _search_action(call, result)
        case HostedKind.CODE:
            code = _arguments(call).get("code")
            written |= {
                "code": code if isinstance(code, str) else call.arguments,
                "container_id": "",
                "outputs": [{"type": "logs", "logs": text}] if text else [],
            }
        case HostedKind.MCP:
            written |= {"server_label": call.server or "", "name": call.name, "arguments": call.arguments}
            written |= {"output": None if failed else text or "", "error": _mcp_error(text) if failed else None}
        case HostedKind.MCP_LISTING:
            written |= {"server_label": call.server or "", "tools": [] if failed else _listed(text)}
            if failed:
                written["error"] = text or "failed"
            return written
    written["status"] = FAILED if failed else COMPLETED
    return written


def report_hosted_call(call: HostedCall, at: Place, ledger: Ledger) -> None:
    """Report a hosted call of another provider that is sent under the name of this vendor's tool (§13)."""
    if call.extras is None or call.extras.origin != NAME:
        ledger.approximated(HOSTED_FEATURES[call.kind], at, "told as a call of this protocol's own tool")


def lose_result(result: HostedResult, at: Place, ledger: Ledger) -> None:
    ledger.dropped(HOSTED_FEATURES[result.kind], at, "a result without its call has no item here")


def _mcp_error(text: str | None) -> JsonObject:
    return {"type": "mcp_tool_execution_error", "content": [{"type": "text", "text": text or "the call failed"}]}


def _search_action(call: HostedCall, result: HostedResult | None) -> JsonObject:
    arguments = _arguments(call)
    query, url, pattern = arguments.get("query"), arguments.get("url"), arguments.get("pattern")
    if isinstance(url, str):
        # Clients of other protocols send back the `query` that was derived for them.
        if isinstance(pattern, str):
            return {"type": "find_in_page", "url": url, "pattern": pattern}
        return {"type": "open_page", "url": url}
    sources = result.sources if result is not None else ()
    action: JsonObject = {"type": "search", "query": query if isinstance(query, str) else ""}
    if isinstance(queries := arguments.get("queries"), list):
        action["queries"] = [one for one in queries if isinstance(one, str)]
    action["sources"] = [{"type": "url", "url": source.url} for source in sources]
    return action


def _arguments(call: HostedCall) -> JsonObject:
    try:
        value = decode(call.arguments)
    except WireError:
        return {}
    return value if isinstance(value, dict) else {}


def _listed(text: str | None) -> JsonList:
    try:
        tools = decode(text or "[]")
    except WireError:
        return []
    return [tool for tool in tools if isinstance(tool, dict)] if isinstance(tools, list) else []
