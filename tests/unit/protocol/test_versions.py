"""Two sides find the newest version that both speak, or say that there is none."""

from __future__ import annotations

import pytest

from lineloop.protocol.errors import LoopError
from lineloop.protocol.link_requests import LinkHelloBody
from lineloop.protocol.versions import SPOKEN, Versions


@pytest.mark.requirement("D103")
@pytest.mark.parametrize(
    ("ours", "theirs", "agreed"),
    [
        (Versions(1, 1), Versions(1, 1), 1),
        (Versions(1, 3), Versions(2, 5), 3),
        (Versions(2, 5), Versions(1, 3), 3),
        (Versions(3, 3), Versions(1, 9), 3),
    ],
)
def test_the_newest_common_version_is_taken(ours: Versions, theirs: Versions, agreed: int) -> None:
    assert ours.agree(theirs) == theirs.agree(ours) == agreed


@pytest.mark.requirement("D103")
@pytest.mark.parametrize(
    ("ours", "theirs"), [(Versions(1, 1), Versions(2, 3)), (Versions(4, 9), Versions(1, 3))]
)
def test_without_a_common_version_each_side_says_what_it_speaks(ours: Versions, theirs: Versions) -> None:
    with pytest.raises(LoopError) as refused:
        ours.agree(theirs)
    assert refused.value.code == "protocol_version_unsupported"
    assert refused.value.detail == {"protocol": ours.newest, "protocol_min": ours.oldest}


@pytest.mark.requirement("D103")
def test_a_client_names_its_oldest_version_only_when_that_is_another() -> None:
    assert Versions(2, 2).hello() == {"protocol": 2}
    assert Versions(1, 2).hello() == {"protocol": 2, "protocol_min": 1}
    hello = LinkHelloBody.model_validate({"token": "t", **Versions(1, 2).hello()})
    assert hello.versions == Versions(1, 2)
    assert LinkHelloBody.model_validate({"token": "t", **SPOKEN.hello()}).versions == SPOKEN
