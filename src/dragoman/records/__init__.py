"""Accounts: every exchange is written down once, and what they come to is asked here (decision 32).

entry             what is known of one exchange, as a line of a journal has it
folder            where the journals lie
journal           one for each worker, and those that follow it; journal_reader reads them, journal_lock says whose
                  they are, journal_sync has them on the disk
ids               of exchanges, which ascend
drain             moves journals into the tables, exactly once; drain_thread does so in a worker
mending           of what cannot be written as it is
rows              what an entry is in the tables of the store
placing           which session and thread it belongs to
trees             the threads of a session below those that began them, with what each came to
standing          what a thread is doing, by one function from facts
sessions          those that there were, and one of them with its tree
exchanges         those that were written down, and one of them with all that is known of it
live              what is open now, and what the last minute came to
period            from when to when, as a person says it, and the days of a zone
usage             what exchanges came to, in groups that add up to the total
export            everything that is recorded, as lines of JSON and of CSV
forget            somebody's rows go, and sums stay
examination       whether all that was written down is there and agrees
secret            what digests of histories are keyed with
spans             what a collector is told of an exchange, in the words of genai_names; telemetry tells it by otlp
trace_context     the spans of a client, as it names them
"""
