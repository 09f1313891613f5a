"""Admin API: the records and keys of a gateway over HTTP, below `/admin/v1/` (decision 46)."""
