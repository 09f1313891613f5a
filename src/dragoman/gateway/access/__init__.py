"""Who may ask: keys, web pages, addresses."""
