"""One package per wire protocol: names, shapes, and both directions of requests, responses, streams and errors. The
packages do not import each other; shared rules are in `rules`, and `registry` lists the packages."""
