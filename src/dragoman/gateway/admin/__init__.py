"""Admin API: `/admin/v1/…`, the records of a gateway and its keys over HTTP (decision 46)."""
