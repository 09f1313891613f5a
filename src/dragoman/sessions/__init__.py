"""Sessions: decides which session and thread an exchange belongs to, and the thread's class. Pure functions over one
table of rules: facts in, assignments out, each with its rule (decision 33)."""
