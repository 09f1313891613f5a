"""Token counts of a request: by a tokenizer if one is installed, otherwise by an estimate."""
