"""What routing is worth: policies played over virtual time against providers that are slow, dear, limited or away.

    world           providers, and the requests that come
    router          who is asked: by what a gateway plans and learns, or by an oracle that knows the future
    play            one router's day, event by event
    partial_outage  targets that fail partly, with the circuit breaker and without one
    chart           lines over time, as SVG
    run             all of them, written to docs/internals/simulation.md

Nothing waits here, and chance is seeded: the same seed makes the same page.
"""
