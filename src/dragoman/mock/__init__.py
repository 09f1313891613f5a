"""Mock: a provider for tests in all three protocols, which plays a script in the conversation (`script`,
`script_player`), else answers as one of `answers.models`. `strict` rejects requests as the services do, `stored` holds
objects with IDs, `recorder` logs. Every gateway has echo (`echo_call`): those models without socket, script or
memory."""
