"""Translation rules shared by protocols: names, ids, arguments, schemas, efforts, envelopes, durations, stops. Small
pure functions on values. Wire shapes belong to a protocol package, and loss entries to the caller."""
