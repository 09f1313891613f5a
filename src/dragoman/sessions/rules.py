"""Session rules: the headers and members in which clients name a session, thread or class, each with its source
(decision 33). A row applies to its client only; a row without a client uses a name that no other program uses. Of
several rows for one fact the first present one counts. Increase `VERSION` with every change that classes the same facts
differently, so that threads are reclassified."""

from __future__ import annotations

from msgspec import Struct

from dragoman.model.session_hints import Insertions

VERSION = 1

CLAUDE_CODE, CODEX, OPENCODE, GEMINI_CLI = "claude-code", "codex", "opencode", "gemini-cli"
HEADER, MEMBER = "header", "member"


class HintRule(Struct, frozen=True, kw_only=True):
    # The client whose statement is trusted; "" means any client.
    client: str = ""
    location: str = HEADER
    field: str
    # The member of `ExchangeFacts`. "turn" is Codex's metadata, which fills several.
    fact: str
    source: str
    sure: int = 100


class Program(Struct, frozen=True, kw_only=True):
    """How a client is recognised: by the start of its user agent, or by its stated origin."""

    client: str
    agent: str = ""
    originator: str = ""
    source: str


_CLAUDE = "recorded: Claude Code 2.1.325"
_CLAUDE_HINTS = "recorded: Claude Code 2.1.325 with CLAUDE_CODE_GATEWAY_HINT_HEADERS=1"
_CODEX = "recorded: Codex 0.166.0"
_OPENCODE = "recorded: OpenCode 1.18.33"
_OLDER_CODEX = "https://github.com/BerriAI/litellm/issues/37895"
_MARCH = "traffic of March 2026"

PROGRAMS: tuple[Program, ...] = (
    Program(client=CLAUDE_CODE, agent="claude-cli/", source=_CLAUDE),
    Program(client=CODEX, agent="codex", source=_CODEX),
    Program(client=OPENCODE, agent="opencode/", source=_OPENCODE),
    Program(client=GEMINI_CLI, agent="geminicli", source="recorded: Gemini CLI 0.61.0"),
    Program(client=CODEX, originator="codex", source=_CODEX),
    Program(client=OPENCODE, originator="opencode", source=_MARCH),
)

RULES: tuple[HintRule, ...] = (
    HintRule(field="x-dragoman-session", fact="session", source="our own"),
    # Claude Code. A subagent of main has no parent ID.
    HintRule(field="x-claude-code-session-id", fact="session", source=_CLAUDE),
    HintRule(field="x-claude-code-agent-id", fact="thread", source=_CLAUDE),
    HintRule(field="x-claude-code-parent-agent-id", fact="parent", source=_CLAUDE),
    HintRule(field="x-claude-code-request-class", fact="said_class", source=_CLAUDE_HINTS),
    HintRule(field="x-claude-code-agent-type", fact="agent", source=_CLAUDE_HINTS),
    HintRule(field="x-claude-code-prompt-id", fact="prompt", source=_CLAUDE_HINTS),
    HintRule(location=MEMBER, field="metadata.user_id", fact="session", source=f"{_CLAUDE}; {_MARCH}", sure=95),
    # Codex. Its older names are too common to identify it.
    HintRule(client=CODEX, field="x-codex-turn-metadata", fact="turn", source=_CODEX),
    HintRule(client=CODEX, field="session-id", fact="session", source=_CODEX),
    HintRule(client=CODEX, field="thread-id", fact="thread", source=_CODEX),
    HintRule(client=CODEX, field="x-codex-parent-thread-id", fact="parent", source=_CODEX),
    HintRule(client=CODEX, field="x-codex-window-id", fact="window", source=_CODEX),
    HintRule(client=CODEX, field="x-openai-subagent", fact="said_class", source=_CODEX),
    HintRule(client=CODEX, location=MEMBER, field="client_metadata", fact="turn", source=_CODEX),
    HintRule(client=CODEX, field="session_id", fact="session", source=_OLDER_CODEX, sure=95),
    HintRule(client=CODEX, field="conversation_id", fact="session", source=_OLDER_CODEX, sure=95),
    # OpenCode, whose agents have sessions of their own.
    HintRule(client=OPENCODE, field="x-session-id", fact="session", source=_OPENCODE),
    HintRule(client=OPENCODE, field="x-session-affinity", fact="session", source=_OPENCODE),
    HintRule(client=OPENCODE, field="x-parent-session-id", fact="parent", source=_OPENCODE),
    HintRule(client=OPENCODE, field="session_id", fact="session", source=_MARCH, sure=95),
    HintRule(
        client=OPENCODE, location=MEMBER, field="prompt_cache_key", fact="session", source=f"{_OPENCODE}; {_MARCH}"
    ),
    # https://platform.openai.com/docs/guides/conversation-state
    HintRule(location=MEMBER, field="conversation", fact="session", source="the Responses API", sure=95),
    HintRule(location=MEMBER, field="previous_response_id", fact="previous", source="the Responses API", sure=95),
)

# Headers that are also used for affinity, each with the trusted clients.
SESSION_HEADERS: dict[bytes, frozenset[str]] = {
    name: frozenset(rule.client for rule in RULES if rule.field.encode() == name)
    for name in (rule.field.encode() for rule in RULES if rule.location == HEADER and rule.fact == "session")
}

# Tools that distinguish a thread if nothing else does. Tools that start agents, each with the arguments for the prompt
# and for the type of agent.
DISTINCTIVE_TOOLS = frozenset({"task", "question", "todowrite"})
NAMING_MEMBERS = {
    "Agent": "subagent_type",
    "Task": "subagent_type",
    "task": "subagent_type",
    "spawn_agent": "agent_type",
}
# https://github.com/Aider-AI/aider/blob/main/aider/coders/base_coder.py (0.86.2): `format_chat_chunks` puts the map of
# the repository and the contents of files before each question, and the examples before all of them.
_AFTER_EXAMPLES = "I switched to a new code base. Please don't consider the above files or try to edit them any longer."
INSERTIONS = Insertions(
    replies=frozenset(
        {
            "Ok, any changes I propose will be to those files.",
            "Ok, I will use that as the true, current contents of the files.",
            "Ok, based on your requests I will suggest which files need to be edited and then stop and wait for your"
            " approval.",
            "Ok, I won't try and edit those files without asking first.",
            "Ok, I will use these files as references.",
            "Ok, I will use these images as references.",
        }
    ),
    inserted=frozenset(
        {
            "I am not sharing any files that you can edit yet.",
            "I am not sharing the full contents of any files with you yet.",
            "I am not sharing any files yet.",
            "I am not sharing any files with you.",
            _AFTER_EXAMPLES,
        }
    ),
    after_examples=frozenset({_AFTER_EXAMPLES}),
    acknowledged="Ok.",
)
SPAWNING_TOOLS = {"Agent": "prompt", "Task": "prompt", "task": "prompt", "spawn_agent": "message"}
