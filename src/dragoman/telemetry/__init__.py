"""OpenTelemetry export: one span for each exchange and provider call, sent in batches by a background thread.

export_queue       bounded queue and export thread; `submit` never blocks
otlp_exporter      OTLP over HTTP
spans              the spans of one exchange
genai_attributes   attribute names of the OpenTelemetry conventions for generative AI
trace_context      W3C trace context of the client
"""
