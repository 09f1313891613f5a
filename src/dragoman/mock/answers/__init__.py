"""Answers: what echo and the mock say alike, from a request in any protocol to the bytes of its answer.

    Request ─▶ last_turn ─▶ models ─▶ truncation ─▶ response ─▶ bytes, whole or streamed
                              │                        └─ signatures: reasoning that is signed, and checked
                              └─ schema_samples: JSON for a schema

Nothing here remembers, and nothing here is strict.
"""
