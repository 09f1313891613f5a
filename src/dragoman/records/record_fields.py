"""Record fields: one table of how each member of a journal entry is called outside of the program. Rows, exports, spans
and pages follow from it: a new member needs its line here, and the place that sets it."""

from __future__ import annotations

from msgspec import Struct

from dragoman.records.journal_entry import JournalEntry, TokenCounts


class RecordField(Struct, frozen=True):
    """One member of `JournalEntry`, by its names; "" means that it is not there under a name of its own."""

    name: str
    # Its column in `records`. Members without one are in the column `details`, or in several columns.
    column: str = ""
    # Its name in exports and views; "" if it is called as here.
    export: str = ""
    # Its attribute in the span of an exchange, where it is neither empty nor 0.
    attribute: str = ""
    # The line of the page of an exchange that lists it, and its name there.
    line: str = ""
    label: str = ""

    @property
    def export_name(self) -> str:
        """Its name in exports and views."""
        return self.export or self.name


# In the order of exports.
FIELDS = (
    RecordField("id", "id", attribute="dragoman.request_id", line="ids", label="ours"),
    RecordField("time", "time"),
    RecordField("kind", "kind"),
    RecordField("outcome", "outcome", attribute="dragoman.outcome"),
    RecordField("key", "key", attribute="dragoman.key", line="who", label="key"),
    RecordField("tags", "tags", line="who", label="tags"),
    RecordField("client", "client", attribute="dragoman.client", line="who", label="client"),
    RecordField("program", "program", "user_agent", line="who", label="user agent"),
    RecordField("address", "address", line="who", label="from"),
    RecordField("launch", "launch", line="who", label="launch"),
    RecordField("client_protocol", "dialect", attribute="dragoman.client_protocol"),
    RecordField("path", "path"),
    RecordField("stream", "stream", attribute="gen_ai.request.stream"),
    RecordField("requested_model", "asked", attribute="dragoman.requested_model"),
    RecordField("provider", "provider", attribute="dragoman.provider"),
    RecordField("model", "model"),
    RecordField("provider_protocol", "served", attribute="dragoman.provider_protocol"),
    RecordField("response_model", "answered_by", attribute="gen_ai.response.model"),
    RecordField("route", "route", attribute="dragoman.route"),
    RecordField("policy", "policy", attribute="dragoman.policy"),
    RecordField("reason", "reason"),
    RecordField("status", "status", attribute="dragoman.status"),
    RecordField("failure", "failure"),
    RecordField("stop_reason", "stop"),
    RecordField("first_content", "first", "first_token_microseconds"),
    RecordField("duration", "took", "duration_microseconds"),
    RecordField("tokens"),
    RecordField("estimated", "estimated"),
    RecordField("cost"),
    RecordField("losses"),
    RecordField("provider_request_id", "upstream_id", line="ids", label="provider's"),
    RecordField("response_id", "response_id", attribute="gen_ai.response.id", line="ids", label="answer's"),
    RecordField("calls"),
    RecordField("facts"),
    RecordField("refusal"),
    RecordField("queue_full"),
    RecordField("size", export="request_bytes"),
    RecordField("trace", line="ids", label="trace"),
    RecordField("candidates"),
    RecordField("candidates_more"),
)
# Fields with a column of their own.
COLUMN_FIELDS = tuple(field for field in FIELDS if field.column)
# Members of `CallEntry`, likewise. Attributes are those of the span of a call.
CALL_FIELDS = (
    RecordField("provider", attribute="dragoman.provider"),
    RecordField("model", attribute="dragoman.model"),
    RecordField("protocol", export="provider_protocol", attribute="dragoman.provider_protocol"),
    RecordField("kind", export="outcome", attribute="dragoman.call.outcome"),
    RecordField("status", attribute="http.response.status_code"),
    RecordField("started", export="started_microseconds"),
    RecordField("first_content", export="first_token_microseconds"),
    RecordField("ended", export="ended_microseconds"),
    RecordField("provider_request_id", attribute="dragoman.call.provider_request_id"),
    RecordField("key"),
    RecordField("maybe_billed", attribute="dragoman.call.maybe_billed"),
    RecordField("tokens"),
    RecordField("estimated"),
    RecordField("cost"),
)
# Members of `TokenCounts`, which are also columns, by their names in exports and views.
TOKEN_NAMES = {name if name == "searches" else f"{name}_tokens": name for name in TokenCounts.__struct_fields__}


def labelled(entry: JournalEntry, line: str) -> list[tuple[str, str]]:
    """The texts of an entry that a line of its page lists, by their labels."""
    return [(field.label, getattr(entry, field.name)) for field in FIELDS if field.line == line]
