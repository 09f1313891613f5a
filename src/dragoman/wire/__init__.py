"""Byte formats without meaning: JSON, server-sent events, data URLs and multipart forms. Member names of protocols
belong into `protocols`."""
