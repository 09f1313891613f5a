"""Token counting for requests and responses: by a tokenizer if one is installed, otherwise by an estimate."""
