"""Processes: the supervisor, its workers, their shared socket and memory, and the reload of the configuration."""
