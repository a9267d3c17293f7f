"""A run folder's records."""

import pytest

from smoothcert.errors import StoreError
from smoothcert.runs.folder import RunFolder


@pytest.mark.parametrize("line", ['{"epoch": 0, "lo\n', "3\n", "\udcff\n"])
def test_a_damaged_metrics_line_is_named(tmp_path, line):
    (tmp_path / "metrics.jsonl").write_bytes(
        b'{"epoch": 0}\n' + line.encode(errors="surrogateescape")
    )
    with pytest.raises(StoreError, match=r"metrics.jsonl, line 2: expected a JSON object"):
        RunFolder(tmp_path).records("metrics.jsonl")
