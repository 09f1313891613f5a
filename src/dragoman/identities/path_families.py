"""Path families: what the `paths` of a key can name, and which actions of a family every key may take. Closed to keys
that do not name them are actions that read or end what another key may have made, and requests in files."""

from __future__ import annotations

from collections.abc import Mapping

CREATE, READ, DELETE, CANCEL = "create", "read", "delete", "cancel"
ACTIONS = (CREATE, READ, DELETE, CANCEL)
# Paths that `server.passthrough_paths` alone opens.
OTHER = "other"

# The actions that are open by default, by family.
OPEN_ACTIONS: Mapping[str, tuple[str, ...]] = {
    "messages": (CREATE,),
    "chat": (CREATE,),
    "responses": ACTIONS,
    "conversations": (CREATE, READ, DELETE),
    "models": (READ,),
    "embeddings": (CREATE,),
    "completions": (CREATE,),
    "moderations": (CREATE,),
    "classify": (CREATE,),
    "rerank": (CREATE,),
    "ocr": (CREATE,),
    "tokenize": (CREATE,),
    "images": (CREATE,),
    "audio": (CREATE,),
    "videos": (CREATE,),
    "files": (CREATE,),
    "uploads": (CREATE,),
    "batches": (CREATE,),
    "containers": (CREATE,),
    "vector_stores": (CREATE,),
    OTHER: ACTIONS,
}

# Actions that open more if a list names them than without a list: some of their paths are closed by default.
PARTLY_CLOSED = frozenset({f"batches:{CREATE}", f"videos:{CREATE}"})
# Families with paths that name no model: keys with a list of models may use these only if their list of paths has them.
WITHOUT_MODEL = frozenset({"files", "uploads", "containers", "vector_stores", OTHER})


def is_path_right(text: str) -> bool:
    """Whether a text is a family, or a family with an action."""
    family, colon, action = text.partition(":")
    return family in OPEN_ACTIONS and (action in ACTIONS if colon else True)
