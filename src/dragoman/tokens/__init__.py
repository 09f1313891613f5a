"""How many tokens a request takes: by a tokenizer if one is installed, by an estimate of our own if not."""
