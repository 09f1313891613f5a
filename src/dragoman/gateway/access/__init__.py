"""Access control: keys, origins of web pages, addresses."""
