"""One package per wire protocol: names, shapes, and both directions of requests, responses, streams and errors. They do
not know each other; shared rules are in `rules`, and `registry` lists the packages."""
