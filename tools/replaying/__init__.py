"""Replaying what real providers once answered: the parts of `tools/replay.py`.

    yaml          the YAML that cassettes are written in
    protocols      whose answer, request or stream something is, by its shape
    recordings    files of a folder to recorded exchanges
    said          what an answer says, whatever its protocol
    reading       a recorded or translated answer to what it says; knows nothing of the library
    stream        the same for a recorded stream
    clients       a translated answer to what the official SDKs read of it
    turns         the second turn: a client's echo, and what a provider finds in it again
    journey       one exchange through all pairs, compared
    explained     differences that are meant, each with its reason

Nothing here reads or writes anything but the folder that it is given.
"""
