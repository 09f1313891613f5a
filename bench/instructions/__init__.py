"""Instructions per exchange, counted by callgrind: a guard against slower code, whatever the machine's load is.

`make bench-check` compares the counts with the accepted ones in `bench/results/instructions.json`.

rows ──────── the cases, what is counted in each, and the rows that follow from it
├── startup    commands, imports and `serve` until it answers, from their first instruction, with compiled modules
├── counting   one case: gateway under callgrind, load and mock provider of `bench.gateway` outside of it
├── callgrind  switches of a running callgrind, and its dump files
├── observed   the process under callgrind: the gateway, with an ingest thread that works when it is permitted to
└── accepted   the accepted figures, the comparison and its table

Loop and ingest are separated by thread: callgrind writes one file per thread (`--separate-threads=yes`). The ingest
thread moves journal entries into the database once a second, so its number of batches would depend on the machine's
load. In `observed` it waits for permits instead. A round makes two dumps: one after the exchanges, and one after a
permitted step of the ingest thread. The ingest thread is the busiest one in the second dump, and it must have executed
SQLite. Its instructions in both dumps are the ingest. The instructions of all other threads in both dumps are the loop:
event loop, log thread, offloaded work. The figure of a case is the least of three rounds. If the ingest thread makes
log lines or counters one day, callgrind cannot tell them from rows: compare the totals then.

Counted are instructions in user space. The kernel's part is left out, and so is the time that a cache miss takes: for
microseconds see `bench.gateway`.
"""
