"""Prices: what models cost, how much they take and how much they say, as data (decision 25)."""
