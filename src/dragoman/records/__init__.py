"""Records: every exchange once, in a worker's journal and then in the tables; usage is queried here (decision 32)."""
