"""A recorded stream, read plainly: deltas put together as the vendors' pages and the servers' ways demand."""

from __future__ import annotations

import json
from collections.abc import Callable

from tools.replaying.protocols import CHAT, MESSAGES, RESPONSES, Object, events_of
from tools.replaying.reading import (
    chat_counts,
    chat_end,
    chat_message,
    read_whole,
    responses_counts,
    responses_end,
    responses_item,
)
from tools.replaying.said import Call, Counts, Said, argument_value, error_text, member, objects, paired, text_of

CUT = "the stream ended early"


def read_stream(protocol: str, stream: bytes) -> Said:
    """What a stream says; an end that never came is an error."""
    said = _READERS[protocol](events_of(stream.decode("utf-8", "replace")))
    if protocol == CHAT and said.error == CUT and b"[DONE]" in stream:
        # Some servers never tell a reason, but this they do.
        said.error = None
    return said


def _messages(events: list[Object]) -> Said:
    blocks: dict[object, Object] = {}
    usage: Object = {}
    reason: object = None
    details: object = None
    error: str | None = None
    started: object = None
    finished = False
    for event in events:
        kind = event.get("type")
        if kind == "message_start":
            message = event.get("message")
            # The same one said twice, before anything else, is only a stammer.
            if started and (blocks or member(message, "id") != started):
                error = "a second message began"
                break
            started = member(message, "id") or True
            usage.update(_known(member(message, "usage")))
            reason = member(message, "stop_reason")
            for place, block in enumerate(objects(member(message, "content"))):
                blocks[place] = dict(block)
        elif kind == "content_block_start":
            opened = event.get("content_block")
            blocks[event.get("index")] = dict(opened) if isinstance(opened, dict) else {}
        elif kind == "content_block_delta":
            _messages_delta(blocks.setdefault(event.get("index"), {}), event.get("delta"))
        elif kind == "message_delta":
            reason = member(event, "delta", "stop_reason") or reason
            details = member(event, "delta", "stop_details") or details
            usage.update(_known(event.get("usage")))
        elif kind == "message_stop":
            finished = True
        elif kind == "error":
            error = error_text(event.get("error"))
            break
    for block in blocks.values():
        written = block.pop("partial", None)
        if isinstance(written, str):
            block["input"] = argument_value(written)
    body: Object = {
        "content": list(blocks.values()),
        "stop_reason": reason,
        "stop_details": details,
        "usage": usage or None,
    }
    said = read_whole(MESSAGES, body)
    said.error = error or (None if finished or reason else CUT)
    return said


def _messages_delta(block: Object, delta: object) -> None:
    for name in ("text", "thinking", "signature"):
        piece = member(delta, name)
        if isinstance(piece, str):
            block[name] = text_of(block.get(name)) + piece
    piece = member(delta, "partial_json")
    if isinstance(piece, str):
        block["partial"] = text_of(block.get("partial")) + piece


def _known(usage: object) -> Object:
    return {name: value for name, value in usage.items() if value is not None} if isinstance(usage, dict) else {}


class _Pieces:
    """The calls of a Chat stream, while they come. An id beats an index, an index beats the order."""

    def __init__(self) -> None:
        self.calls: list[dict[str, str]] = []
        self.by_index: dict[object, dict[str, str]] = {}

    def take(self, piece: Object) -> None:
        function = piece.get("function") if isinstance(piece.get("function"), dict) else piece.get("custom")
        call_id, name = text_of(piece.get("id")), text_of(member(function, "name"))
        call = self._call(call_id, piece.get("index"), name)
        call["id"] = call["id"] or call_id
        call["seal"] = call["seal"] or text_of(member(piece, "extra_content", "google", "thought_signature"))
        if name != call["name"]:
            call["name"] += name
        arguments = member(function, "arguments") or member(function, "input")
        said = json.dumps(arguments) if isinstance(arguments, dict) else text_of(arguments)
        # A server that tells a whole call again adds nothing to it.
        if not (_complete(call["arguments"]) and argument_value(said) == argument_value(call["arguments"])):
            call["arguments"] += said

    def _call(self, call_id: str, index: object, name: str) -> dict[str, str]:
        """The call that a piece belongs to, or a new one."""
        known = next((call for call in self.calls if call_id and call["id"] == call_id), None)
        if known is None and index is not None:
            known = self.by_index.get(index)
            if known is not None and name and self._is_another(known, call_id, name):
                known = None
        if known is None and not name and not call_id and self.calls:
            known = next((call for call in self.calls if not _complete(call["arguments"])), self.calls[-1])
        if known is None:
            known = {"id": call_id, "name": "", "arguments": "", "seal": ""}
            self.calls.append(known)
        self.by_index[index] = known
        return known

    @staticmethod
    def _is_another(known: dict[str, str], call_id: str, name: str) -> bool:
        if call_id and known["id"]:
            return call_id != known["id"]
        return name != known["name"] and _complete(known["arguments"])


def _complete(arguments: str) -> bool:
    return isinstance(argument_value(arguments), dict) and bool(arguments.strip())


def _chat(events: list[Object]) -> Said:
    said, pieces, legacy = Said(), _Pieces(), {"name": "", "arguments": ""}
    reason: object = None
    details: dict[object, Object] = {}
    for event in events:
        if event.get("error"):
            said.error = error_text(event["error"])
            break
        choice = next((one for one in objects(event.get("choices")) if one.get("index") in (0, None)), None)
        said.counts = _latest(said.counts, chat_counts(event, choice))
        delta = member(choice, "delta") or member(choice, "message")
        chat_message(delta, said)
        for piece in objects(member(delta, "tool_calls")):
            pieces.take(piece)
        for detail in objects(member(delta, "reasoning_details")):
            held = details.setdefault((detail.get("index"), detail.get("type")), {})
            held["data"] = text_of(held.get("data")) + text_of(detail.get("data"))
        function = member(delta, "function_call")
        for name in legacy:
            legacy[name] += text_of(member(function, name))
        if member(choice, "error"):
            said.error = error_text(member(choice, "error"))
            break
        reason = member(choice, "finish_reason") or reason
    # Sealed data may come in several pieces; chat_message took each for a whole.
    whole = [text_of(held["data"]) for held in details.values() if held["data"]]
    said.seals = [seal for seal in said.seals if not any(seal in one for one in whole)] + whole
    for call in pieces.calls:
        said.calls.append(Call(call["id"], call["name"], argument_value(call["arguments"])))
        said.seals += [call["seal"]] if call["seal"] else []
    if legacy["name"] and not said.calls:
        said.calls.append(Call("", legacy["name"], argument_value(legacy["arguments"])))
    said.reasoning = paired(said.reasoning)
    said.end = chat_end(reason)
    if said.error is None and said.end is None:
        said.error = CUT
    return said


def _latest(before: Counts | None, now: Counts | None) -> Counts | None:
    return before if now is None else now


def _responses(events: list[Object]) -> Said:
    said = Said()
    items: dict[object, Object] = {}
    deltas: dict[object, Object] = {}
    final: Object | None = None
    for event in events:
        kind = text_of(event.get("type"))
        item, place = event.get("item"), event.get("output_index")
        if kind == "response.output_item.added" and isinstance(item, dict):
            deltas[item.get("id") or place] = dict(item)
        elif kind == "response.output_item.done" and isinstance(item, dict):
            items[item.get("id") or place] = item
        elif kind in ("response.completed", "response.incomplete", "response.failed", "response.done"):
            response = event.get("response")
            final = response if isinstance(response, dict) else {}
        elif kind == "error":
            said.error = error_text(event.get("error") or event)
            break
        elif kind.endswith(".delta"):
            _responses_delta(deltas, kind, event)
    told = list(items.values())
    ended = objects(final.get("output")) if final is not None else []
    if len(ended) > len(told):
        told = ended
    if not told:
        told = list(deltas.values())
    for item in told:
        responses_item(item, said)
        grown = deltas.get(item.get("id"), {}).get("grown")
        said.shortened |= isinstance(grown, str) and not said.text.endswith(grown) and not said.text.startswith(grown)
    if final is not None:
        if final.get("error"):
            said.error = error_text(final["error"])
        said.end, said.counts = responses_end(final, said), responses_counts(final.get("usage"))
    elif said.error is None:
        said.error = CUT
    return said


def _responses_delta(deltas: dict[object, Object], kind: str, event: Object) -> None:
    """What a server leaves out of its items at the end is only in the deltas."""
    item = deltas.setdefault(event.get("item_id") or event.get("output_index"), {"type": "message"})
    piece = text_of(event.get("delta"))
    if kind == "response.output_text.delta":
        item["grown"] = text_of(item.get("grown")) + piece
        item["content"] = [{"type": "output_text", "text": item["grown"]}]
    elif kind == "response.function_call_arguments.delta":
        item["arguments"] = text_of(item.get("arguments")) + piece


_READERS: dict[str, Callable[[list[Object]], Said]] = {MESSAGES: _messages, CHAT: _chat, RESPONSES: _responses}
