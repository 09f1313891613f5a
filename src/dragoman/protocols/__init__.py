"""One room per wire protocol; rooms do not know each other.

A room holds everything that is particular to its wire: names, shapes, both directions of requests, answers, streams and
errors. What several rooms share is in `rules`; `registry` lists the rooms.
"""
