"""Images and documents: what a user shows is what the provider sees, in every pair of protocols."""

from __future__ import annotations

import base64
from collections.abc import Callable

import anthropic
import openai
import pytest

from tests.gateway.harness import CHAT, MESSAGES, PROTOCOLS, RESPONSES
from tests.gateway.pairwise import pairwise
from tests.gateway.sdk.desk import MODELS, Desk
from tests.gateway.sdk.speakers import HELPER, WHOLE, Content, ask
from tests.sdk.digging import Object, dig, dig_objects
from tests.sdk.providers import Turn
from tests.sdk.test_conversations import ENDED
from tests.sdk.users import PIXEL

PDF = base64.b64encode(b"%PDF-1.4\n1 0 obj<</Type/Catalog>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF\n").decode()
PHOTO = "https://example.com/photo.png?size=large&v=1"
PAPER = "https://example.com/paper.pdf"
TEXT = "What is this?"
SHOWN = {
    "an image": Content(text=TEXT, image=PIXEL),
    "an image by address": Content(text=TEXT, image_url=PHOTO),
    "a document": Content(text=TEXT, pdf=PDF),
    "an image and a document": Content(text=TEXT, image=PIXEL, pdf=PDF),
}

WAYS = pytest.mark.parametrize("way", [WHOLE, HELPER])


@pytest.mark.parametrize(
    ("client", "provider", "shown", "way"), pairwise(PROTOCOLS, PROTOCOLS, list(SHOWN), (WHOLE, HELPER))
)
def test_what_is_shown_is_seen(desk: Desk, client: str, provider: str, shown: str, way: str) -> None:
    with desk.scripted(Turn(stop=ENDED[provider], text="A dot.")) as strict:
        told = ask(desk, client, MODELS[provider], SHOWN[shown], way)
    assert told.text == "A dot."
    assert _SEEN[provider](strict.asked[0]) == SHOWN[shown]


@WAYS
@pytest.mark.parametrize("provider", [MESSAGES, RESPONSES])
@pytest.mark.parametrize("client", [MESSAGES, RESPONSES])
def test_a_document_by_address_is_fetched_by_the_provider(desk: Desk, client: str, provider: str, way: str) -> None:
    content = Content(text=TEXT, pdf_url=PAPER)
    with desk.scripted(Turn(stop=ENDED[provider], text="A paper.")) as strict:
        assert ask(desk, client, MODELS[provider], content, way).text == "A paper."
    assert _SEEN[provider](strict.asked[0]) == content


@WAYS
@pytest.mark.parametrize("client", [MESSAGES, RESPONSES])
def test_what_chat_cannot_say_is_refused_before_anybody_is_asked(desk: Desk, client: str, way: str) -> None:
    with desk.scripted() as strict, pytest.raises((anthropic.BadRequestError, openai.BadRequestError)) as caught:
        ask(desk, client, MODELS[CHAT], Content(text=TEXT, pdf_url=PAPER), way)
    assert isinstance(caught.value, anthropic.BadRequestError) == (client == MESSAGES)
    assert strict.asked == []


def _seen_in_messages(body: Object) -> Content:
    fields: dict[str, str] = {}
    for block in dig_objects(body, "messages", 0, "content"):
        source = block.get("source")
        if block["type"] == "text":
            fields["text"] = str(block["text"])
        elif isinstance(source, dict) and source["type"] == "base64":
            expected = "image/png" if block["type"] == "image" else "application/pdf"
            assert source["media_type"] == expected
            fields["image" if block["type"] == "image" else "pdf"] = str(source["data"])
            assert block["type"] == "image" or block["title"] == "report.pdf"
        else:
            fields[f"{'image' if block['type'] == 'image' else 'pdf'}_url"] = str(dig(source, "url"))
    return Content(**fields)


def _seen_in_chat(body: Object) -> Content:
    fields: dict[str, str] = {}
    for part in dig_objects(body, "messages", 0, "content"):
        if part["type"] == "text":
            fields["text"] = str(part["text"])
        elif part["type"] == "image_url":
            fields.update(_image(dig(part, "image_url", "url")))
        else:
            assert dig(part, "file", "filename") == "report.pdf"
            fields["pdf"] = str(dig(part, "file", "file_data")).removeprefix("data:application/pdf;base64,")
    return Content(**fields)


def _seen_in_responses(body: Object) -> Content:
    fields: dict[str, str] = {}
    for part in dig_objects(body, "input", 0, "content"):
        if part["type"] == "input_text":
            fields["text"] = str(part["text"])
        elif part["type"] == "input_image":
            fields.update(_image(part["image_url"]))
        elif "file_url" in part:
            fields["pdf_url"] = str(part["file_url"])
        else:
            assert part["filename"] == "report.pdf"
            fields["pdf"] = str(part["file_data"]).removeprefix("data:application/pdf;base64,")
    return Content(**fields)


def _image(url: object) -> dict[str, str]:
    inline = "data:image/png;base64,"
    return {"image": str(url).removeprefix(inline)} if str(url).startswith(inline) else {"image_url": str(url)}


_SEEN: dict[str, Callable[[Object], Content]] = {
    MESSAGES: _seen_in_messages,
    CHAT: _seen_in_chat,
    RESPONSES: _seen_in_responses,
}
