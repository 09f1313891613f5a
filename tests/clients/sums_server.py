"""A server of the Model Context Protocol with one tool, over standard input and output: `python sums_server.py`."""

from __future__ import annotations

import json
import sys

ADD = {
    "name": "add",
    "description": "Adds two numbers.",
    "inputSchema": {
        "type": "object",
        "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
        "required": ["a", "b"],
    },
}


def main() -> None:
    """Answer every request of the client until it hangs up."""
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" not in asked:
            continue
        given = asked.get("params") or {}
        result: dict[str, object] = {}
        if asked["method"] == "initialize":
            about = {"name": "sums", "version": "1"}
            result = {"protocolVersion": given["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": about}
        elif asked["method"] == "tools/list":
            result = {"tools": [ADD]}
        elif asked["method"] == "tools/call":
            total = given["arguments"]["a"] + given["arguments"]["b"]
            result = {"content": [{"type": "text", "text": f"the sum is {total}"}]}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)


if __name__ == "__main__":
    main()
