"""Answers: what echo and the mock say alike, from a request in any protocol to the bytes and headers of its answer.

    Request ─▶ last_turn ─▶ models ─▶ response ─▶ delivery
                              │          └─ signatures: reasoning that is signed, and checked when it comes back
                              └─ schema_samples: JSON for a schema

Nothing here remembers, and nothing here is strict.
"""
