"""Limit on the tool calls of one answer: an answer with more of them fails.

Of a relayed Chat stream most frames pass unread: calls in these are not counted, and nothing is kept of them.
"""

from __future__ import annotations

# No client runs as many, and everything that is kept for each call is kept at most so often.
MAX_CALLS = 1024
TOO_MANY_CALLS = f"the provider's answer has more than {MAX_CALLS} tool calls"
