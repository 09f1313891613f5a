"""Contents: request and response bodies, stored only where an operator asks for it (decision 48). They are redacted,
cut into pieces that are stored once, compressed, and rebuilt to identical bytes. SQL is in `store`."""
