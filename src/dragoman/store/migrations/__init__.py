"""Migrations: one list of steps per engine, which end with tables and columns of the same names (decision 47)."""
