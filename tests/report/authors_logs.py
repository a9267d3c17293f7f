"""The logs of certification that the authors of SmoothMix and of CAT-RS released."""

import os

import pytest

LOGS = os.environ.get("SMOOTHCERT_PUBLISHED_LOGS", "")
needs_logs = pytest.mark.skipif(
    not LOGS,
    reason="SMOOTHCERT_PUBLISHED_LOGS names no folder with the `data` that SmoothMix and CAT-RS released",
)
