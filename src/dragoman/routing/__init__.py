"""Routing: which target gets a request, and what follows a failure (decision 25). Clock and random are arguments."""
