"""docs/admin-api.md has every endpoint of the admin API, and every member of what it takes and sends."""

from __future__ import annotations

import msgspec.inspect as inspected

from dragoman.gateway.admin.endpoints import ENDPOINTS
from dragoman.gateway.admin.framework import PREFIX
from tools.admin_api_page import PAGE, page, structs

TEXT = PAGE.read_text(encoding="utf-8")


def test_the_page_is_up_to_date() -> None:
    assert page() == TEXT, "run `make docs`"


def test_every_endpoint_is_on_the_page_with_its_role() -> None:
    for each in ENDPOINTS:
        section = TEXT.partition(f"\n### {each.method} {PREFIX}{each.path}\n")[2].partition("\n### ")[0]
        assert f"Role: `{each.role}`" in section
        assert ("`If-Match`" in section) == each.needs_match


def test_every_member_is_on_the_page() -> None:
    for kind in structs():
        section = TEXT.partition(f"\n### {kind.__name__}\n")[2].partition("\n### ")[0]
        described = inspected.type_info(kind)
        assert isinstance(described, inspected.StructType)
        assert [field.name for field in described.fields if f"| `{field.encode_name}` |" not in section] == []
