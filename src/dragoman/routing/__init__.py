"""Routing: which target a request goes to, and what follows when that fails (decision 25).

    target      whom a request goes to
    route       a name's targets, its policy and its rules
    needs       what is peeked of a request
    view        what is known of the world, the conversation and chance
    plan        the order in which targets are tried, with the reasons
                (outline, decide, filters, candidate, explanation)
    policies    one ranking each, named as in the configuration
    outcomes    what became of an attempt, and what follows it (kinds finds out, rests says which key is left alone)
    health      how targets stand
    budgets     how often a target may be asked again
    speeds      how fast targets answered of late
    pins        where conversations are, known by the keys of conversations

Nothing here has a clock, a loop, dice or a memory of its own: all of that is handed in.
"""
