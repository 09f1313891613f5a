"""Routing: selects the target of a request, and the next step after a failure (decision 25). Clock and random numbers
are arguments."""
