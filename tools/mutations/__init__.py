"""Mutation testing by sample: shows whether a test suite notices small changes of the source.

    python -m tools.mutations sample           # 200 random mutations of the packages that carry meaning
    python -m tools.mutations record           # which test executes which line; once per suite
    python -m tools.mutations run              # the tests that execute each mutation, until one fails
    python -m tools.mutations report

`--tree` and `--data` name another tree and the directory of its data. To compare two suites, run the sample with one
and `run --survivors-of RESULTS` with the other, which judges the mutations that the first suite did not kill.
"""
