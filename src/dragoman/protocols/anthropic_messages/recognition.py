"""Recognising a Messages request by its shape, where nobody says what it is."""

from __future__ import annotations

from dragoman.model.jsonvalue import JsonObject

# Blocks that no other protocol's messages hold.
_OWN_BLOCKS = frozenset({"tool_use", "tool_result", "thinking", "redacted_thinking", "document", "image"})


def recognises(body: JsonObject) -> bool:
    """Whether a body looks like a Messages request; Chat requests have `messages` too."""
    messages = body.get("messages")
    if not isinstance(messages, list):
        return False
    if any(key in body for key in ("system", "stop_sequences", "thinking", "output_config", "mcp_servers", "top_k")):
        return "functions" not in body and "response_format" not in body
    tools = body.get("tools")
    if isinstance(tools, list) and tools:
        first = tools[0]
        return isinstance(first, dict) and ("input_schema" in first or not {"function", "parameters"} & first.keys())
    for message in messages:
        if not isinstance(message, dict) or "tool_calls" in message or message.get("role") in ("tool", "developer"):
            return False
        content = message.get("content")
        if isinstance(content, list):
            kinds = {str(block.get("type")) for block in content if isinstance(block, dict)}
            if kinds & _OWN_BLOCKS:
                return True
            if kinds - {"text"}:
                return False
    first = messages[0] if messages else None
    led_by_system = isinstance(first, dict) and first.get("role") == "system"
    return "max_tokens" in body and not led_by_system and not _CHAT_ONLY & body.keys()


_CHAT_ONLY = frozenset(
    {
        "n",
        "stop",
        "seed",
        "logprobs",
        "logit_bias",
        "frequency_penalty",
        "presence_penalty",
        "stream_options",
        "reasoning_effort",
        "response_format",
        "max_completion_tokens",
        "user",
        "store",
    }
)
