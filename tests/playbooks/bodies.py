"""What clients and providers of each protocol say in the dialogues: small bodies with tools, thinking and text."""

from __future__ import annotations

import json

from tests.gateway.harness import CHAT, MESSAGES, PROTOCOLS, RESPONSES
from tests.gateway.says import NAMES, STOPS, error_body, error_frame
from tests.sdk.digging import Object
from tests.sdk.providers import ENCRYPTED, SIGNATURE, Call, Turn, answer, stream

_SCHEMA: Object = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
_WORDS = "What is the weather in Ulm?"
_CALL = Call("call_0123456789", "weather", '{"city": "Ulm"}')
_CALLED = {MESSAGES: "tool_use", CHAT: "tool_calls", RESPONSES: "completed"}
PLAIN = {name: Turn(stop=STOPS[name], text="It is sunny in Ulm.") for name in PROTOCOLS}
FULL = {
    name: Turn(stop=_CALLED[name], reasoning="Ulm is a city.", text="Let me look.", calls=(_CALL,))
    for name in PROTOCOLS
}


def question(client: str, provider: str, *, stream: bool = False) -> Object:
    """A user's question, with instructions, a tool and a wish for reasoning."""
    body: Object = {"model": f"{NAMES[provider]}/served"}
    tool: Object = {"name": "weather", "description": "Tells the weather."}
    if client == MESSAGES:
        body |= {
            "max_tokens": 4096,
            "system": "Be brief.",
            "thinking": {"type": "enabled", "budget_tokens": 2048},
            "tools": [{**tool, "input_schema": _SCHEMA}],
            "messages": [{"role": "user", "content": _WORDS}],
        }
    elif client == CHAT:
        body |= {
            "reasoning_effort": "low",
            "tools": [{"type": "function", "function": {**tool, "parameters": _SCHEMA}}],
            "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": _WORDS}],
        }
    else:
        body |= {
            "instructions": "Be brief.",
            "reasoning": {"effort": "low", "summary": "auto"},
            "tools": [{"type": "function", "strict": None, **tool, "parameters": _SCHEMA}],
            "input": _WORDS,
        }
    return {**body, **({"stream": True} if stream else {})}


def brief(client: str, provider: str, *, stream: bool = False, **more: object) -> Object:
    """The least that can be asked."""
    said: Object = {"input": _WORDS} if client == RESPONSES else {"messages": [{"role": "user", "content": _WORDS}]}
    least: Object = {"max_tokens": 100} if client == MESSAGES else {}
    wish: Object = {"stream": True} if stream else {}
    return {"model": f"{NAMES[provider]}/served", **least, **said, **wish, **more}


def lossy(client: str, provider: str) -> Object:
    """A question with something in it that no other protocol can say."""
    unsaid: dict[str, Object] = {
        MESSAGES: {"top_k": 5},
        CHAT: {"logit_bias": {"1": 2}, "seed": 3},
        RESPONSES: {"top_logprobs": 2, "truncation": "auto"},
    }
    return {**brief(client, provider), **unsaid[client]}


def stopping(client: str, provider: str, *, stream: bool = False) -> Object:
    """A question whose answer is to end before a word, at providers that know no such wish."""
    wish = "stop_sequences" if client == MESSAGES else "stop"
    return {**brief(client, provider, stream=stream), wish: ["sunny"]}


def reminding(client: str) -> Object:
    """A second turn that brings the sealed reasoning of the first, for a provider of the same protocol."""
    hello: Object = {"role": "user", "content": "Hello."}
    more: Object = {"role": "user", "content": "Go on."}
    thought = "a thought"
    if client == MESSAGES:
        sealed: Object = {"type": "thinking", "thinking": thought, "signature": SIGNATURE}
        said: Object = {"role": "assistant", "content": [sealed, {"type": "text", "text": "Hi."}]}
    else:
        detail: Object = {"type": "reasoning.text", "text": thought, "signature": SIGNATURE, "index": 0}
        said = {"role": "assistant", "content": "Hi.", "reasoning_details": [detail]}
    if client == RESPONSES:
        summary: Object = {"summary": [{"type": "summary_text", "text": thought}], "encrypted_content": ENCRYPTED}
        return {"input": [hello, {"type": "reasoning", "id": "rs_1", **summary}, {**said, "content": "Hi."}, more]}
    return {"messages": [hello, said, more]}


_SEAL_WORDS = {
    MESSAGES: "messages.1.content.0: Invalid `signature` in `thinking` block",
    CHAT: "Invalid `signature` in `thinking` block",
    RESPONSES: "The encrypted content for item rs_1 could not be verified.",
}


def seal_refused(provider: str, *, inside: bool = False) -> bytes:
    """A provider's refusal of sealed reasoning, as a whole answer or inside a stream."""
    code = "invalid_encrypted_content" if provider == RESPONSES else None
    if inside:
        return error_frame(provider, "invalid_request_error", _SEAL_WORDS[provider], code)
    return error(provider, "invalid_request_error", _SEAL_WORDS[provider], code)


def error(provider: str, kind: str, words: str, code: str | None = None) -> bytes:
    """A provider's error."""
    return json.dumps(error_body(provider, kind, words, code)).encode()


def overloaded(provider: str, words: str = "too many ask") -> bytes:
    """An error inside a provider's stream."""
    return error_frame(provider, "overloaded_error", words, "server_is_overloaded")


def whole(provider: str, turn: Turn | None = None) -> bytes:
    """A provider's whole answer."""
    return json.dumps(answer(provider, turn or PLAIN[provider])).encode()


def frames(provider: str, turn: Turn | None = None) -> list[bytes]:
    """A provider's stream, frame by frame."""
    return [frame + b"\n\n" for frame in stream(provider, turn or PLAIN[provider]).split(b"\n\n")[:-1]]


def parts(provider: str) -> tuple[bytes, bytes, bytes]:
    """A provider's stream in three: what says nothing yet, some words, and the rest."""
    told = frames(provider)
    opening = 2 if provider == RESPONSES else 1
    return b"".join(told[:opening]), b"".join(told[opening : opening + 3]), b"".join(told[opening + 3 :])


# A Messages provider that pauses after a search of its own, and goes on.
_SEARCH: Object = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "Ulm"}}
_TURNS: dict[str, list[Object]] = {
    "pause_turn": [{"type": "text", "text": "Let me look. ", "citations": None}, _SEARCH],
    "end_turn": [{"type": "text", "text": "It is sunny.", "citations": None}],
}


def paused(stop: str, *, streamed: bool) -> bytes:
    """A turn that ends in a pause, or what follows it."""
    usage: Object = {"input_tokens": 10, "output_tokens": 3}
    message: Object = {"id": "msg_0123456789abcdefABCDEF", "type": "message", "role": "assistant", "model": "served"}
    message |= {"content": _TURNS[stop], "stop_reason": stop, "stop_sequence": None, "usage": usage}
    if not streamed:
        return json.dumps(message).encode()
    events: list[Object] = [
        {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}},
    ]
    for index, block in enumerate(_TURNS[stop]):
        is_text = block["type"] == "text"
        empty: Object = {"text": ""} if is_text else {"input": {}}
        delta: Object = {"type": "text_delta", "text": block["text"]} if is_text else {"type": "input_json_delta"}
        delta |= {} if is_text else {"partial_json": json.dumps(block["input"])}
        events += [
            {"type": "content_block_start", "index": index, "content_block": {**block, **empty}},
            {"type": "content_block_delta", "index": index, "delta": delta},
            {"type": "content_block_stop", "index": index},
        ]
    events += [
        {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": usage},
        {"type": "message_stop"},
    ]
    return b"".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events)
