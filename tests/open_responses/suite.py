"""The checks of the Open Responses compliance suite, written against any server: a base URL, a key and a model.

Each check posts to `/responses` with `stream` said explicitly, expects a 2xx, and holds the response, or that of the
stream's last event, against the core's schema. `run` runs one by its id and raises `AssertionError` with every fault.
"""

from __future__ import annotations

import base64
import http.client
import json
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from msgspec import Struct

from tests.media import pdf, png
from tests.sdk.annotations import Fault
from tests.sdk.digging import Object
from tests.sdk.open_responses import WIRE, item_faults, names, objects, response_faults
from tests.waiting import LIMIT

# Members of events beyond `type` and `sequence_number` that the core's schemas demand.
_EVENT_MEMBERS = {
    "response.output_item.added": ("output_index", "item"),
    "response.output_item.done": ("output_index", "item"),
    "response.content_part.added": ("item_id", "output_index", "content_index", "part"),
    "response.content_part.done": ("item_id", "output_index", "content_index", "part"),
    "response.output_text.delta": ("item_id", "output_index", "content_index", "delta", "logprobs"),
    "response.output_text.done": ("item_id", "output_index", "content_index", "text", "logprobs"),
    "response.function_call_arguments.delta": ("item_id", "output_index", "delta"),
    "response.function_call_arguments.done": ("item_id", "output_index", "arguments"),
}
_TERMINAL = ("response.completed", "response.failed", "response.incomplete")
WEATHER: Object = {
    "type": "function",
    "name": "get_weather",
    "description": "Tells the weather at a place",
    "parameters": {"type": "object", "properties": {"location": {"type": "string"}}, "required": ["location"]},
}


class Server(Struct, frozen=True, kw_only=True):
    """Whom the checks are run against."""

    url: str
    key: str
    model: str
    header: str = "authorization"
    prefix: str = "Bearer "

    def post(self, body: Mapping[str, object]) -> tuple[http.client.HTTPMessage, bytes]:
        """Send a request; anything but a 2xx fails the check."""
        parts = urlsplit(self.url)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=LIMIT)
        try:
            connection.request(
                "POST",
                parts.path + "/responses",
                json.dumps({"model": self.model, **body}),
                {"content-type": "application/json", self.header: self.prefix + self.key},
            )
            answer = connection.getresponse()
            raw = answer.read()
        finally:
            connection.close()
        assert 200 <= answer.status < 300, (answer.status, raw)
        return answer.headers, raw


def _whole(server: Server, **body: object) -> Object:
    headers, raw = server.post({**body, "stream": False})
    assert headers.get_content_type() == "application/json", headers
    response = json.loads(raw)
    _judge(response_faults(response))
    return _object(response)


def _streamed(server: Server, **body: object) -> tuple[Object, list[Object]]:
    """The response of the last terminal event, and all events."""
    headers, raw = server.post({**body, "stream": True})
    assert headers.get_content_type() == "text/event-stream", headers
    *frames, rest = raw.decode().split("\n\n")
    assert not rest.strip(), "the stream ends in the middle of a frame"
    assert frames[-1] == "data: [DONE]", frames[-1]
    events = [_event(frame) for frame in frames[:-1] if not frame.startswith(":")]
    assert [event["sequence_number"] for event in events] == sorted(
        {int(str(event["sequence_number"])) for event in events}
    ), "sequence numbers grow"
    found = [fault for event in events for fault in _event_faults(event)]
    _judge(found)
    last = [event for event in events if event["type"] in _TERMINAL]
    assert len(last) == 1 and last[0] is events[-1], "one terminal event, at the end"
    response = _object(last[0]["response"])
    _judge(response_faults(response))
    return response, events


def _event(frame: str) -> Object:
    lines = frame.split("\n")
    assert all(line.startswith(("event: ", "data: ")) for line in lines), frame
    name = next(line[7:] for line in lines if line.startswith("event: "))
    event = _object(json.loads("".join(line[6:] for line in lines if line.startswith("data: "))))
    assert event["type"] == name, (event["type"], name)
    return event


def _event_faults(event: Object) -> list[Fault]:
    kind = str(event["type"])
    assert kind in names(WIRE["open_responses"]["event_union"]), f"{kind} is no event of Open Responses"
    missing = [name for name in _EVENT_MEMBERS.get(kind, ()) if name not in event]
    assert not missing, (kind, missing)
    found: list[Fault] = []
    if isinstance(event.get("response"), dict):
        found += response_faults(_object(event["response"]), kind)
    if isinstance(event.get("item"), dict):
        found += item_faults(_object(event["item"]), kind)
    return found


def _judge(found: list[Fault]) -> None:
    assert not found, "\n".join(map(str, found))


def _object(value: object) -> Object:
    assert isinstance(value, dict), value
    return value


def _completed(response: Object) -> None:
    assert response["output"], "the output is empty"
    assert response["status"] == "completed", response["status"]
    assert response["error"] is None and response["incomplete_details"] is None, response


def _user(*content: object) -> Object:
    return {"type": "message", "role": "user", "content": content[0] if len(content) == 1 else list(content)}


def _basic(server: Server) -> None:
    _completed(_whole(server, input=[_user("Say hello in exactly three words.")]))


def _streaming(server: Server) -> None:
    response, events = _streamed(server, input=[_user("Count from one to five.")])
    _completed(response)
    text = "".join(str(event["delta"]) for event in events if event["type"] == "response.output_text.delta")
    told = [part["text"] for item in objects(response["output"]) for part in objects(item.get("content"))]
    assert text == "".join(map(str, told)), "the deltas are the text"


def _system(server: Server) -> None:
    system = {"type": "message", "role": "system", "content": "You are a pirate. Always answer as one."}
    _completed(_whole(server, input=[system, _user("Say hello.")]))


def _called(response: Object) -> Object:
    calls = [item for item in objects(response["output"]) if item["type"] == "function_call"]
    assert calls, "no function was called"
    json.loads(str(calls[0]["arguments"]))
    return calls[0]


def _tools(server: Server) -> None:
    response = _whole(server, input=[_user("What is the weather in Oslo?")], tools=[WEATHER])
    assert _called(response)["name"] == "get_weather"
    (tool,) = objects(response["tools"])
    assert tool["strict"] is None or isinstance(tool["strict"], bool), tool


def _tools_streaming(server: Server) -> None:
    response, events = _streamed(server, input=[_user("What is the weather in Oslo?")], tools=[WEATHER])
    call = _called(response)
    kinds = [event["type"] for event in events]
    for kind in ("response.output_item.added", "response.output_item.done"):
        assert any(_object(event["item"])["type"] == "function_call" for event in events if event["type"] == kind), kind
    assert "response.function_call_arguments.done" in kinds
    deltas = [str(event["delta"]) for event in events if event["type"] == "response.function_call_arguments.delta"]
    assert "".join(deltas) == call["arguments"] and deltas


def _roundtrip(server: Server) -> None:
    forced = {"type": "function", "name": "get_weather"}
    first = _whole(server, input="What is the weather in Oslo?", tools=[WEATHER], tool_choice=forced)
    call = _called(first)
    assert call["call_id"], call
    output = {"type": "function_call_output", "call_id": call["call_id"], "output": "Snow, -3 degrees."}
    second = _whole(server, input=[output], tools=[WEATHER], previous_response_id=first["id"])
    _completed(second)
    assert second["previous_response_id"] == first["id"]


def _image(server: Server) -> None:
    url = "data:image/png;base64," + base64.b64encode(png(8, 8)).decode()
    picture = {"type": "input_image", "image_url": url}
    _completed(_whole(server, input=[_user({"type": "input_text", "text": "What is this?"}, picture)]))


def _file(server: Server) -> None:
    url = "data:application/pdf;base64," + base64.b64encode(pdf("Hello")).decode()
    file = {"type": "input_file", "filename": "hello.pdf", "file_data": url}
    _completed(_whole(server, input=[_user({"type": "input_text", "text": "What does it say?"}, file)]))


def _turns(server: Server) -> None:
    answer = {"type": "message", "role": "assistant", "content": "Hello, Alice."}
    _completed(_whole(server, input=[_user("My name is Alice."), answer, _user("What is my name?")]))


def _chained(server: Server) -> None:
    first = _whole(server, input="My favourite colour is green.")
    _completed(first)
    second = _whole(server, input="What is it?", previous_response_id=first["id"])
    _completed(second)
    assert second["previous_response_id"] == first["id"]


CHECKS: dict[str, Callable[[Server], None]] = {
    "basic-response": _basic,
    "streaming-response": _streaming,
    "system-prompt": _system,
    "tool-calling": _tools,
    "tool-calling-streaming": _tools_streaming,
    "function-call-roundtrip": _roundtrip,
    "image-input": _image,
    "file-input": _file,
    "multi-turn": _turns,
    "previous-response-id": _chained,
}
# Checks of the public suite that are optional: they need tools that the server runs itself.
OPTIONAL = ("file-search", "offline-web-search")


def run(name: str, server: Server) -> None:
    """Run one check."""
    CHECKS[name](server)
