"""OpenTelemetry export: one span for each exchange and provider call, sent in batches by a background thread."""
