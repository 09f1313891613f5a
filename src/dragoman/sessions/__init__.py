"""Sessions: who is speaking: which session and thread an exchange belongs to, and what class that thread is of.

Pure functions over one table of rules: facts go in, assignments come out, each with its rule (decision 33).
"""
