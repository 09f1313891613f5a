"""The names of the three protocols, for tests that need no SDK to be loaded."""

from __future__ import annotations

MESSAGES, CHAT, RESPONSES = "anthropic-messages", "openai-chat", "openai-responses"
