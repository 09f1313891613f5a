"""Translation rules that several protocols share: names, ids, arguments, schemas, efforts, envelopes, durations, stop
reasons. Most are small pure functions on values. Wire shapes belong to the protocol packages, and callers write the
loss ledger."""
