"""Policies: each ranks the targets of a route; one file and one line here for each, named as in the configuration."""
