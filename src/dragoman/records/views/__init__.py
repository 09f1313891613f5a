"""Views: the results of record queries as programs get them, by `--json` and by the admin API alike."""
