"""Blocks of hosted tools: searches, code, Model Context Protocol (mapping.md §13). Each block is stored in full,
because results hold ciphertext that must return unmodified."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from dragoman.errors import WireError
from dragoman.model.jsonvalue import JsonList, JsonObject
from dragoman.model.parts import Extras, HostedCall, HostedKind, HostedResult, Part, Seal, WebSource
from dragoman.protocols.anthropic_messages.shapes import CODE_TOOLS, NAME
from dragoman.rules.arguments import to_object
from dragoman.wire.fields import Fields
from dragoman.wire.json import decode, encode_text


def decode_hosted(block: Fields, kind: str) -> Part | None:
    """A call or result that several protocols can express; None for every other block."""
    decoder = _DECODERS.get(kind)
    return decoder(block) if decoder is not None else None


def _block_extras(block: Fields) -> Extras:
    return Extras(origin=NAME, fields=block.value)


def _decode_server_tool_use(block: Fields) -> HostedCall | None:
    name = block.text("name")
    arguments = block.object("input")
    if name == "web_search":
        kind = HostedKind.WEB_SEARCH
    elif name in CODE_TOOLS:
        kind = HostedKind.CODE
        # Other protocols get shell commands as code.
        arguments = {"code": arguments.get("code", arguments.get("command", ""))}
    else:
        return None
    return HostedCall(
        call_id=block.text("id"), kind=kind, name=name, arguments=encode_text(arguments), extras=_block_extras(block)
    )


def _decode_web_search_result(block: Fields) -> HostedResult:
    call_id = block.text("tool_use_id")
    content = block.raw("content")
    if isinstance(content, dict):
        code = Fields(content, (block.path, "content")).optional_text("error_code")
        return HostedResult(
            call_id=call_id, kind=HostedKind.WEB_SEARCH, text=code or "", is_error=True, extras=_block_extras(block)
        )
    sources = [_decode_source(result) for result in block.each("content")]
    return HostedResult(
        call_id=call_id, kind=HostedKind.WEB_SEARCH, sources=tuple(sources), extras=_block_extras(block)
    )


def _decode_source(result: Fields) -> WebSource:
    result.optional_text("type")
    return WebSource(
        url=result.optional_text("url") or "",
        title=result.optional_text("title") or "",
        seal=Seal(origin=NAME, kind="web", body=result.value),
    )


def _decode_code_result(block: Fields) -> HostedResult:
    content = block.fields("content")
    code = content.optional_text("error_code")
    text = (content.optional_text("stdout") or "") + (content.optional_text("stderr") or "")
    return HostedResult(
        call_id=block.text("tool_use_id"),
        kind=HostedKind.CODE,
        text=code if code is not None else text,
        is_error=code is not None,
        extras=_block_extras(block),
    )


def _decode_mcp_tool_use(block: Fields) -> HostedCall:
    return HostedCall(
        call_id=block.text("id"),
        kind=HostedKind.MCP,
        name=block.text("name"),
        arguments=encode_text(block.object("input")),
        server=block.optional_text("server_name"),
        extras=_block_extras(block),
    )


def _decode_mcp_tool_result(block: Fields) -> HostedResult:
    content = block.raw("content")
    text = content if isinstance(content, str) else "\n".join([_text_of(part) for part in block.each("content")])
    return HostedResult(
        call_id=block.text("tool_use_id"),
        kind=HostedKind.MCP,
        text=text,
        is_error=block.optional_flag("is_error") or False,
        extras=_block_extras(block),
    )


def _text_of(part: Fields) -> str:
    part.optional_text("type")
    return part.optional_text("text") or ""


def _decode_mcp_listing(block: Fields) -> HostedCall:
    for tool in block.each("tools"):
        tool.text("name")
    return HostedCall(
        call_id="",
        kind=HostedKind.MCP_LISTING,
        name="mcp_tool_listing",
        arguments="{}",
        server=block.text("mcp_server_name"),
        extras=_block_extras(block),
    )


def listing_result(part: Part) -> HostedResult | None:
    """The result of a tool listing. It is stored in the same block as the call, but other protocols separate the
    two."""
    if not isinstance(part, HostedCall) or part.kind is not HostedKind.MCP_LISTING or part.extras is None:
        return None
    tools = part.extras.fields.get("tools", [])
    return HostedResult(call_id=part.call_id, kind=HostedKind.MCP_LISTING, text=encode_text(tools))


_DECODERS: dict[str, Callable[[Fields], Part | None]] = {
    "server_tool_use": _decode_server_tool_use,
    "web_search_tool_result": _decode_web_search_result,
    "code_execution_tool_result": _decode_code_result,
    "bash_code_execution_tool_result": _decode_code_result,
    "mcp_tool_use": _decode_mcp_tool_use,
    "mcp_tool_result": _decode_mcp_tool_result,
    "mcp_tool_listing": _decode_mcp_listing,
}


def hosted_id(call_id: str, prefix: str) -> str:
    """The ID of a hosted call in this protocol's form: no other protocol's prefix reaches a client (N4)."""
    if call_id.startswith(prefix):
        return call_id
    _, _, suffix = call_id.partition("_")
    plain = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in suffix or call_id)
    return prefix + plain


def mcp_call_block(part: HostedCall) -> JsonObject:
    return {
        "type": "mcp_tool_use",
        "id": hosted_id(part.call_id, "mcptoolu_"),
        "name": part.name,
        "server_name": part.server or "",
        "input": to_object(part.arguments)[0],
    }


def mcp_result_block(part: HostedResult) -> JsonObject:
    return {
        "type": "mcp_tool_result",
        "tool_use_id": hosted_id(part.call_id, "mcptoolu_"),
        "is_error": part.is_error,
        "content": [{"type": "text", "text": part.text}] if part.text else [],
    }


def listing_block(part: HostedResult, server: str) -> JsonObject:
    try:
        listed = decode(part.text or "[]")
    except WireError:
        listed = []
    tools = listed if isinstance(listed, list) else []
    return {"type": "mcp_tool_listing", "mcp_server_name": server, "tools": [*_listed_tools(tools)]}


def _listed_tools(listed: JsonList) -> Iterator[JsonObject]:
    for tool in listed:
        if not isinstance(tool, dict) or not isinstance(tool.get("name"), str):
            continue
        encoded: JsonObject = {"name": tool["name"]}
        if isinstance(tool.get("description"), str):
            encoded["description"] = tool["description"]
        schema = tool.get("input_schema")
        encoded["input_schema"] = schema if isinstance(schema, dict) else {}
        yield encoded
