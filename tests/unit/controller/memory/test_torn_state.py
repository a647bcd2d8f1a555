"""State of a controller that a crash, a full disk or an editor has torn is one clear line, and no traceback."""

import json
from pathlib import Path

import pytest

from cascadia.controller.memory.state import IN_FORCE, UNDER_WAY, FileState, last_of
from cascadia.domain.errors import BadInput

TORN = ["", '{"plan"', "[]", "3", "{}", "[" * 100_000]


@pytest.mark.parametrize("text", TORN)
def test_a_torn_file_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / IN_FORCE).write_text(text)
    with pytest.raises(BadInput, match=IN_FORCE):
        last_of(tmp_path)
    with pytest.raises(BadInput, match=IN_FORCE):
        FileState(tmp_path).in_force()
    (tmp_path / IN_FORCE).write_text('{"plan": "plan.json"}')
    (tmp_path / UNDER_WAY).write_text(text)
    with pytest.raises(BadInput, match=UNDER_WAY):
        last_of(tmp_path)
    with pytest.raises(BadInput, match=UNDER_WAY):
        FileState(tmp_path).under_way()


@pytest.mark.parametrize("other", [3, [], {}, True])
def test_a_member_of_another_form_is_named_and_one_that_nobody_knows_is_not(
    tmp_path: Path, other: object
) -> None:
    move = {"to": "a", "from": "b", "need_rps": {}, "need_now_rps": {"small": 1}, "later": 1}
    (tmp_path / IN_FORCE).write_text(json.dumps({"plan": "p", "asked": other}))
    with pytest.raises(BadInput, match=IN_FORCE):
        last_of(tmp_path)
    (tmp_path / UNDER_WAY).write_text(json.dumps({**move, "to": other}))
    with pytest.raises(BadInput, match=UNDER_WAY):
        FileState(tmp_path).under_way()
    (tmp_path / UNDER_WAY).write_text(json.dumps({**move, "need_rps": {"small": "1"}}))
    with pytest.raises(BadInput, match=UNDER_WAY):
        FileState(tmp_path).under_way()
    (tmp_path / UNDER_WAY).write_text(json.dumps(move))
    found = FileState(tmp_path).under_way()
    assert found is not None
    assert found.need_now_rps == {"small": 1}


def test_a_state_of_a_version_that_told_less_is_read(tmp_path: Path) -> None:
    (tmp_path / IN_FORCE).write_text('{"plan": "plan.json"}')
    found = last_of(tmp_path)
    assert found is not None
    assert (found.plan, found.asked, found.under_way, found.moved) == (Path("plan.json"), None, None, False)
