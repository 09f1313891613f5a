"""A provider of this protocol, a client of another, and what comes back in the second turn."""

from __future__ import annotations

from typing import TypeAlias

from dragoman.model.jsonvalue import JsonList, JsonObject, JsonValue
from dragoman.rules.capabilities import CapabilityRow
from dragoman.streaming import StreamPipeline
from dragoman.translate import LossLine, TranslatedRequest, translate_request, translate_response
from dragoman.wire.json import decode_object, encode
from dragoman.wire.sse import SseReader
from tests.protocols.openai_chat.room import A, C, R, chunk, objects

_SCHEMA: JsonObject = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOLS: dict[str, JsonObject] = {
    A: {"name": "weather", "input_schema": _SCHEMA},
    R: {"type": "function", "name": "weather", "parameters": _SCHEMA},
}
CLIENTS = (A, R)
MODES = ("whole", "streamed")
Deltas: TypeAlias = list[JsonObject]
SIGNED: JsonObject = {"google": {"thought_signature": "sig-a"}}
THOUGHT: JsonObject = {"type": "thinking", "thinking": [{"type": "text", "text": "I look"}], "closed": True}
BLOCK: JsonObject = {"type": "thinking", "thinking": "I look", "signature": "sig-b"}
ITEM: JsonObject = {
    "id": "rs_1",
    "type": "reasoning",
    "summary": [{"type": "summary_text", "text": "I look"}],
    "encrypted_content": "e",
}
REDACTED: JsonObject = {"type": "redacted_thinking", "data": "secret"}
CALL: JsonObject = {"name": "weather", "arguments": '{"city":"Oslo"}'}


class Conversation:
    """One client of a Chat provider; every answer is echoed as clients do."""

    def __init__(self, client: str, model: str = "m", upstream: str = "", rows: tuple[CapabilityRow, ...] = ()) -> None:
        self.client = client
        self.model = model
        self.upstream = upstream
        self.rows = rows
        self.history: JsonList = [{"role": "user", "content": "hi"}]
        self.losses: list[LossLine] = []
        self.answers: list[JsonObject] = []

    def asked(self, *, stream: bool = False, model: str | None = None) -> TranslatedRequest:
        """The request that the provider gets now."""
        body: JsonObject = {"model": self.model, "tools": [TOOLS[self.client]]}
        body["messages" if self.client == A else "input"] = self.history
        if self.client == A:
            body["max_tokens"] = 4096
        else:
            body |= {"store": False, "include": ["reasoning.encrypted_content"]}
        body["stream"] = stream
        asked = translate_request(
            body, source=self.client, target=C, model=model, vendor=self.upstream, capability_rows=self.rows
        )
        self.losses += asked.losses
        return asked

    def messages(self, **changes: str) -> list[JsonObject]:
        """The messages of the request that the provider gets now."""
        return objects(decode_object(self.asked(model=changes.get("model")).body), "messages")

    def hears(self, message: JsonObject, finish: str = "tool_calls") -> JsonList:
        """Take a whole answer into the history; give what the client sees of it."""
        choice: JsonObject = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
        body: JsonObject = {"id": "chatcmpl-u", "created": 7, "model": self.model, "choices": [choice]}
        told = translate_response(body, source=C, target=self.client, request=self.asked())
        self.losses += told.losses
        return self._keep(decode_object(told.body))

    def streams(self, *deltas: JsonObject, finish: str = "tool_calls") -> JsonList:
        """Take a streamed answer into the history; give what the client sees of it."""
        translator = StreamPipeline(source=C, target=self.client, request=self.asked(stream=True))
        chunks = [chunk(delta) for delta in deltas] + [chunk({}, finish)]
        said = b"".join(b"data: " + encode(one) + b"\n\n" for one in chunks) + b"data: [DONE]\n\n"
        frames = translator.feed(said) + translator.close()
        self.losses += translator.losses
        return self._keep(folded(self.client, frames))

    def _keep(self, answer: JsonObject) -> JsonList:
        self.answers.append(answer)
        if self.client == A:
            content = JsonList(objects(answer, "content"))
            self.history.append({"role": "assistant", "content": content})
            return content
        items = JsonList(objects(answer, "output"))
        self.history += items
        return items

    def results(self) -> None:
        """Answer every call of the last answer."""
        if self.client == A:
            calls = [block["id"] for block in objects(self.answers[-1], "content") if block["type"] == "tool_use"]
            blocks = [{"type": "tool_result", "tool_use_id": one, "content": "rain"} for one in calls]
            self.history.append({"role": "user", "content": JsonList(blocks)})
            return
        calls = [item["call_id"] for item in objects(self.answers[-1], "output") if item["type"] == "function_call"]
        self.history += [{"type": "function_call_output", "call_id": one, "output": "rain"} for one in calls]

    def says(self, text: str) -> None:
        """The user goes on."""
        self.history.append({"role": "user", "content": text})


def folded(client: str, frames: bytes) -> JsonObject:
    """A client's stream as the whole answer that its SDK makes of it."""
    reader = SseReader()
    read = [*reader.feed(frames), *reader.close()]
    events = [decode_object(frame.data) for frame in read if frame.data != b"[DONE]"]
    if client == R:
        (last,) = [event for event in events if event["type"] == "response.completed"]
        answer = last["response"]
        assert isinstance(answer, dict)
        return answer
    blocks: list[JsonObject] = []
    arguments: dict[int, str] = {}
    for event in events:
        if event["type"] == "content_block_start":
            block = event["content_block"]
            assert isinstance(block, dict)
            blocks.append(dict(block))
        elif event["type"] == "content_block_delta":
            delta, index = event["delta"], event["index"]
            assert isinstance(delta, dict) and isinstance(index, int)
            if delta["type"] == "input_json_delta":
                arguments[index] = arguments.get(index, "") + str(delta["partial_json"])
                continue
            for key in ("text", "thinking", "signature"):
                if key in delta:
                    blocks[index][key] = f"{blocks[index].get(key) or ''!s}{delta[key]!s}"
    for index, text in arguments.items():
        blocks[index]["input"] = decode_object(text)
    return {"content": list[JsonValue](blocks)}


def call(call_id: str = "c1", **members: JsonObject | str) -> JsonObject:
    return {"id": call_id, "type": "function", "function": dict(CALL), **members}


def lost(conversation: Conversation, *features: str) -> list[tuple[str, str]]:
    """The lines of the ledger about reasoning, and about what nobody knew."""
    wanted = features or ("thinking", "thinking_signature", "unknown_field", "unsupported_content")
    return [(loss["fate"], loss["feature"]) for loss in conversation.losses if loss["feature"] in wanted]


def answered(
    client: str, mode: str, message: JsonObject, deltas: Deltas, model: str = "m", upstream: str = ""
) -> Conversation:
    """A conversation after one answer and the results of its calls."""
    conversation = Conversation(client, model, upstream)
    if mode == "whole":
        conversation.hears(message)
    else:
        conversation.streams(*deltas)
    conversation.results()
    return conversation
