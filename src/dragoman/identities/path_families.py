"""Path families: the values of a key's `paths`, and the actions that every key may take. Keys must name actions that
read or end another key's data, and requests in files, to use them."""

from __future__ import annotations

from collections.abc import Mapping

CREATE, READ, DELETE, CANCEL = "create", "read", "delete", "cancel"
ACTIONS = (CREATE, READ, DELETE, CANCEL)
# Paths that only `server.passthrough_paths` opens.
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

# Actions that permit more in a list than without one: some of their paths are closed by default.
PARTLY_CLOSED = frozenset({f"batches:{CREATE}", f"videos:{CREATE}"})
# Families with paths that name no model. A key with a list of models may use them only if its `paths` name them.
WITHOUT_MODEL = frozenset({"files", "uploads", "containers", "vector_stores", OTHER})


def is_path_right(text: str) -> bool:
    family, colon, action = text.partition(":")
    return family in OPEN_ACTIONS and (action in ACTIONS if colon else True)
