"""Settings that had another name before version 0.1.0: a file that uses one gets the new name as a remedy."""

from __future__ import annotations

from collections.abc import Mapping

# Old name to new name, by the section that the key is in, at any depth.
RENAMED: Mapping[str, Mapping[str, str]] = {
    "server": {"relayed_paths": "passthrough_paths", "pooled_limits": "forward_pooled_rate_limits"},
    "providers": {
        "label": "vendor",
        "streams": "streaming",
        "ask_usage": "include_usage",
        "stores": "stores_responses",
        "queue": "queue_size",
        "queue_time": "queue_timeout",
        "check_every": "health_check_interval",
        "insecure": "allow_plaintext_key",
        "rows": "capabilities",
        "changes": "set",
    },
    "models": {
        "refusals": "fallback_on_refusal",
        "input_over": "input_tokens_over",
        "structured": "structured_output",
    },
    "timeouts": {"keep_alive": "heartbeat"},
    "routing": {
        "attempts": "max_attempts",
        "replays": "max_billed_retries",
        "hold": "heartbeat_after",
        "explore": "exploration_rate",
    },
    "limits": {
        "body": "request_body",
        "answer": "response_body",
        "event": "stream_event",
        "connections": "connections_per_host",
    },
    "storage": {
        "keep": "store_responses",
        "days": "response_days",
        "background": "max_background_responses",
        "records": "record_requests",
        "when_full": "on_write_failure",
        "addresses": "client_addresses",
        "zone": "time_zone",
    },
    "telemetry": {"sample": "sample_ratio", "service": "service_name"},
    "prices": {"context": "context_window", "output_cap": "max_output_tokens"},
}


def new_name(section: str, key: str) -> str | None:
    """The present name of a key that was renamed; None if it never was one."""
    return RENAMED.get(section, {}).get(key)
