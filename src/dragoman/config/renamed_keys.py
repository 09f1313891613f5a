"""Settings and values that were renamed before version 0.1.0: the error for an old name gives the new one."""

from __future__ import annotations

from collections.abc import Mapping

from dragoman.config.toml_lines import KeyPath

# Old key to new key, by table. In tables of names (`_NAMED`) the user's name is `*`; positions in arrays are left out.
RENAMED_KEYS: Mapping[str, Mapping[str, str]] = {
    "server": {"relayed_paths": "passthrough_paths", "pooled_limits": "forward_pooled_rate_limits"},
    "providers.*": {
        "label": "vendor",
        "streams": "streaming",
        "ask_usage": "include_usage",
        "stores": "stores_responses",
        "queue": "queue_size",
        "queue_time": "queue_timeout",
        "check_every": "health_check_interval",
        "insecure": "allow_plaintext_key",
        "rows": "capabilities",
    },
    "providers.*.capabilities": {"changes": "set"},
    "models.*": {"refusals": "fallback_on_refusal"},
    "models.*.rules.when": {"input_over": "input_tokens_over", "structured": "structured_output"},
    "prices.*": {"context": "context_window", "output_cap": "max_output_tokens"},
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
}
# Old value to new value, by the new name of the setting.
RENAMED_VALUES: Mapping[str, Mapping[str, str]] = {
    "providers.*.streaming": {"asked": "on-request"},
    "storage.on_write_failure": {"answer": "serve", "refuse": "reject"},
}
_NAMED = ("providers", "models", "prices")


def new_name(table: KeyPath, key: str) -> str | None:
    """The present name of a key of a table; None if it was not renamed."""
    return RENAMED_KEYS.get(_place(table), {}).get(key)


def new_value(setting: KeyPath, value: object) -> str | None:
    """The present name of a setting's value; None if it was not renamed."""
    return RENAMED_VALUES.get(_place(setting), {}).get(value) if isinstance(value, str) else None


def _place(path: KeyPath) -> str:
    """The table or setting that a path is about, whatever the user's name in it."""
    is_named = path[:1] and path[0] in _NAMED
    parts = ("*" if is_named and depth == 1 else part for depth, part in enumerate(path))
    return ".".join(part for part in parts if isinstance(part, str))
