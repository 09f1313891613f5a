"""Mock: a provider for tests, on one port in all three protocols, that says what a script in the conversation says.

    request ─▶ app ─▶ strictness   what the service of the protocol would refuse
                  ├─▶ threads, responses, conversations   what is held behind an id, in `memory`
                  ├─▶ script       which step of the script is played now
                  ├─▶ playing      the step as parts of an answer, or as a fault
                  ├─▶ telling      the answer whole, or as a stream
                  └─▶ recording    a line about the request and its answer

How answers are counted, cut and written is echo's; what a script makes of a conversation belongs here.
"""
