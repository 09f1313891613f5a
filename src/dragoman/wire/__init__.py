"""Reading and writing without meaning: JSON, server-sent events, data URLs.

Belongs here: what any protocol room needs to take bytes apart and put them together. Does not belong here: any member
name of a protocol.
"""
