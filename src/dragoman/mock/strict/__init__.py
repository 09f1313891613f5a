"""Strict: the rejections of each service; `checks` selects the checks of a protocol."""
