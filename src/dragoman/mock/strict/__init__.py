"""Strict mode: the rejections of each service. `checks` selects the checks of a protocol."""
