"""Mock: a provider for tests, in all three protocols, that says what a script in the conversation says.

Without a script it answers as one of the models of `answers.models`: says what it heard, calls a tool, thinks.
Those alone, without a socket, a script, a memory or rules, are echo: a provider inside every gateway.

    Call ─▶ echo_call ─▶ echo ───────────────────────┐
                                                     ├─▶ answers   what is said, whole or as a stream
    request ─▶ app ─┬─▶ script, script_player, turn ─┘
                    ├─▶ strict     what the service of the protocol would refuse
                    ├─▶ stored     what is held behind an id
                    └─▶ recorder   a line about the request and its answer

It speaks each protocol as a service would, through the same rooms as everybody else. What belongs here is how it
behaves; what a protocol looks like does not. Whoever starts a gateway loads `echo_call` and what that needs, no more.
"""
