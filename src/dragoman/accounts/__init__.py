"""Accounts: every exchange is written down once, and what they come to is asked here (decision 32).

entry      what is known of one exchange, as a line of a journal has it
folder     where the journals lie
rows       what an entry is in the tables of the store
placing    which session and thread it belongs to
"""
