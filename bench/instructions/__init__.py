"""Instructions per exchange, counted by callgrind: a guard against slower code that does not depend on the machine's load.

`make bench-check` compares the counts with the accepted ones in `bench/results/instructions.json`.

rows ──────── the cases, what is counted in each, and the rows that follow from it
├── counting   one case: gateway under callgrind, load and mock provider of `bench.gateway` outside of it
├── callgrind  switches of a running callgrind, and its dump files
├── observed   the process under callgrind: the gateway, with an ingest thread that works when it is permitted to
└── accepted   the accepted figures, the comparison and its table

How the loop is told from the ingest: callgrind writes one file per thread (`--separate-threads=yes`). The ingest thread
moves journal entries into the database once a second, so its number of batches would depend on the machine's load.
`observed` therefore lets it wait. One dump is made after the exchanges, another one after one permitted step of the
ingest thread. In the second dump, the ingest thread is the one that executes SQLite and has the most instructions. Its
instructions in both dumps are the ingest. The instructions of all other threads in both dumps are the loop: event loop,
log thread, offloaded work, wherever they run. If log lines or counters are made by the ingest thread one day, they count
as ingest: compare the totals then.

Counted are instructions in user space. The kernel's part is left out, and so is the time that a cache miss takes: for
microseconds see `bench.gateway`.
"""
