"""Prices: what models cost, how much they take and how much they say, as data (decisions 25 and 26).

    table       the compiled book as it is written, and how it is read and checked
    upstream    what the public collection of prices looks like, and how it becomes a table
    book        which entry a model of a provider is, and what holds of it now
    classes     the disjoint classes of tokens that a usage comes to
    cost        what they cost: the one function for records, budgets and routing
    said        what a provider itself says that an answer cost
    money       amounts as dollars in text
    changes     in what one book differs from another

Rates are whole pico-dollars, costs whole nano-dollars; there is no fraction anywhere. What is not known is None and
never 0. Nothing here has a clock, a socket or a folder of its own.
"""
