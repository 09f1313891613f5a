"""What the gateway costs: a mock provider, a load generator that verifies every answer, and nginx beside it as a floor.

cases ── what is measured and what it must reach
├── questions   what the clients send            answers   what the provider says
├── provider    the mock provider (a process)    load      the clients (this process), hearing reads what they got
├── metronome   chunks that arrive alone         serving   the gateway, nginx and the provider as processes
├── process     processor time and memory        standing  cold start, memory, install size, the yardstick
├── rounds      who is measured when             report    the tables and docs/internals/benchmarks.md
└── growth      how the cost of an exchange grows with its size, its streams and the records (`make bench-growth`)
    growth_cases   what grows                    growth_report   bench/results/growth.json and the plots, by plot

Everything stays on 127.0.0.1 and is bounded in count and time. Nothing here asserts a speed.
"""
