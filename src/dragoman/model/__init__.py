"""What can be said, whatever the wire: frozen values without behaviour beyond folding.

Belongs here: what at least two protocols can say, and the ledger of what one of them cannot. Does not belong here:
member names, defaults or limits of any wire (see `protocols`), and rules for adapting one to another (see `rules`).
"""
