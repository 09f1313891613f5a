"""Mock provider: a server for tests that speaks all three protocols and plays a script in the conversation (`script`,
`script_player`), otherwise answers like one of `answers.models`. `strict` rejects requests as the services do, `stored`
holds objects with IDs, `recorder` logs. The gateway's built-in `echo` (`echo_call`) has the same models, without
socket, script or state."""
