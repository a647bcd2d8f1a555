from pathlib import Path

import pytest

from cascadia.domain.errors import BadInput
from cascadia.domain.policy import Policies, Policy, PolicyExpectation, PolicyRow
from cascadia.files.policies_file import policies_json, read_policies, write_policies

ROW = PolicyRow((0.0, 0.05), ("small", "large"), (1, 1))
POLICIES = Policies(
    "guard", ("small", "large"), slo_s=0.1, workers=2, queue="worker", index="rate",
    levels=(Policy(100.0, (ROW,), PolicyExpectation(80.0, 0.01, 79.0, 1e-6)),),
)  # fmt: skip


def test_policies_are_read_back_as_written(tmp_path: Path) -> None:
    write_policies(POLICIES, tmp_path / "policies.json")
    assert read_policies(tmp_path) == POLICIES


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('"workers"', '"wrokers"', "did you mean 'workers'"),
        ('"slack_s":[0.0,', '"slack_s":[0.1,', "rise from 0"),
        ('"index":"rate"', '"index":"rates"', "did you mean 'rate'"),
        ('"large"],"batch"', '"lagre"],"batch"', "no model 'lagre'"),
        ("}", "", "JSON"),
    ],
)
def test_a_file_that_cannot_be_followed_is_refused_in_one_line(
    tmp_path: Path, old: str, new: str, says: str
) -> None:
    file = tmp_path / "policies.json"
    file.write_text(policies_json(POLICIES).replace(old, new))
    with pytest.raises(BadInput) as error:
        read_policies(file)
    assert says in str(error.value)
    assert "\n" not in str(error.value)
