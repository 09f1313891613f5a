"""The recording that the page about adding a provider shows is played like those of the servers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.bare import ROOT
from tests.docs.pages import blocks
from tests.sdk.names import CHAT, MESSAGES, RESPONSES
from tests.servers import test_servers
from tests.servers.recordings import read

PAGE = ROOT / "docs/adding-a-provider.md"


@pytest.mark.parametrize("client", [MESSAGES, CHAT, RESPONSES])
@pytest.mark.parametrize("streamed", [True, False])
def test_the_recording_of_the_page_is_what_clients_get(tmp_path: Path, client: str, *, streamed: bool) -> None:
    (block,) = (block for block in blocks("toml", [PAGE]) if block.text.startswith("server = "))
    path = tmp_path / "acme.toml"
    path.write_text(block.text, encoding="utf-8")
    (recording,) = read(path).recording
    test_servers.test_what_the_server_says_is_heard_and_comes_back(path, recording, client, streamed)
