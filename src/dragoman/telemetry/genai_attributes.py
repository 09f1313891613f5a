"""Attribute names of OpenTelemetry's conventions for generative AI, as of November 2026, from
https://github.com/open-telemetry/semantic-conventions-genai (status Development, no release). The constants of
`opentelemetry-semantic-conventions` are deprecated. The names at the end are our own and stable."""

from __future__ import annotations

from dragoman.records.journal_entry import CONVERSATION, COUNT

# Operations by the kind of exchange, and by path. The conventions have no name for counting (their issue 510);
# instrumentations use this one. Other requests have no span.
OPERATIONS = {CONVERSATION: "chat", COUNT: "count_tokens"}
OPERATION_PATHS = {"/embeddings": "embeddings", "/completions": "text_completion"}

PROVIDERS = {
    "azure": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "google": "gcp.gemini",
    "mistral": "mistral_ai",
    "moonshot": "moonshot_ai",
    "vertex": "gcp.vertex_ai",
    "xai": "x_ai",
}

OPERATION = "gen_ai.operation.name"
PROVIDER = "gen_ai.provider.name"
REQUEST_MODEL = "gen_ai.request.model"
FINISH_REASONS = "gen_ai.response.finish_reasons"
# The replacement for a missing finish reason.
NO_REASON = "error"
FIRST_CHUNK = "gen_ai.response.time_to_first_chunk"
CONVERSATION_ID = "gen_ai.conversation.id"
AGENT_NAME = "gen_ai.agent.name"
# Includes cache reads and writes; output includes reasoning.
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
CACHE_READ = "gen_ai.usage.cache_read.input_tokens"
CACHE_WRITE = "gen_ai.usage.cache_write.input_tokens"
# Its name until August 2026 (their change 440). Many backends know only this one.
CACHE_WRITE_FORMER = "gen_ai.usage.cache_creation.input_tokens"
REASONING_TOKENS = "gen_ai.usage.reasoning.output_tokens"

# Stable, from the general conventions.
ERROR_TYPE = "error.type"
OTHER_ERROR = "_OTHER"
SERVER_ADDRESS = "server.address"
SERVER_PORT = "server.port"
SERVICE_NAME = "service.name"

# Our own names; `records/record_fields.py` has those of entry members. `gen_ai.*` are set only on the span of the
# exchange, so that sums count each exchange once.
CANDIDATES = "dragoman.candidates"
CANDIDATES_MORE = "dragoman.candidates_more"
TAG = "dragoman.tag."
CALLS = "dragoman.calls"
LOSSES = "dragoman.losses"
BOOKKEEPING = "dragoman.bookkeeping_losses"
COST = "dragoman.cost_usd"
REPORTED_COST = "dragoman.reported_cost_usd"
UNPRICED = "dragoman.unpriced"
ESTIMATED = "dragoman.estimated"
SEARCHES = "dragoman.searches"
THREAD = "dragoman.thread.id"
PARENT_THREAD = "dragoman.thread.parent"
THREAD_CLASS = "dragoman.thread.class"
CALL_NUMBER = "dragoman.call.number"
CALL_KEY = "dragoman.call.key"
CALL_INPUT = "dragoman.call.input_tokens"
CALL_OUTPUT = "dragoman.call.output_tokens"
CALL_COST = "dragoman.call.cost_usd"
