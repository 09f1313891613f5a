"""Processes: the supervisor, its workers, the socket and the page they share, the file they follow."""
