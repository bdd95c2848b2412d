"""What PostgreSQL cannot keep is refused by name, wherever it comes in; nothing is stored or breaks."""

from __future__ import annotations

import pytest
from tests.contract.server.calls import get, speak
from tests.contract.wakeup.replicas import replica

from lineloop.kit.engines import DatabaseUrl


@pytest.mark.requirement("R12")
async def test_a_nul_character_is_kept_in_content_and_refused_elsewhere(postgres_url: str) -> None:
    async with replica(postgres_url) as place:
        named = await place.http.post("/v1/conversations", json={"name": "a\0b"})
        assert (named.status_code, named.json()["code"]) == (422, "invalid_request")
        root = (await place.http.post("/v1/conversations", json={})).json()["id"]
        for body in ({"key": "k\0"}, {"key": "a", "reply_to_id": "a\0b"}):
            refused = await place.http.post(f"/v1/conversations/{root}/messages", json={"text": "x", **body})
            assert (refused.status_code, refused.json()["code"]) == (422, "invalid_request")
        for path in ("/messages/a%00b", f"/conversations/{root}/messages?call_id=%00"):
            refused = await place.http.get(f"/v1{path}")
            assert refused.status_code in (404, 422), path
        said = await speak(place.http, root, "b", "one\0two")
        whole = await get(place.http, f"/messages/{said['id']}")
        assert whole["content"]["blocks"][0]["content"] == "one\0two"
        assert whole["ordinal"] == 1


@pytest.mark.requirement("R10")
def test_a_url_does_not_show_its_password_where_values_are_shown() -> None:
    url = DatabaseUrl("postgresql://me:not-to-be-told@db/team")
    assert "not-to-be-told" not in repr(url)
    assert "db/team" in repr(url)
