"""`smoothcert report` and `status` of a certified run."""

import pytest

from tests.cli.commands import run


def test_train_certify_status_report(capsys, certified, tmp_path):
    status = run(capsys, "status", certified)
    assert "gaussian on mnist-mini, sigma 0.5: trained, epoch 8 of 8" in status
    assert "certify six: all 6 inputs done (n 200, alpha 0.001, exact noise)" in status
    files = {kind: tmp_path / f"report.{kind}" for kind in ("html", "markdown", "latex", "csv")} | {
        "figure": tmp_path / "curves.svg"
    }
    options = [part for kind, path in files.items() for part in (f"--{kind}", path)]
    printed = run(capsys, "report", certified, *options, "--radii", 0, 0.5)
    assert "ACR" in printed
    assert "r=0.5" in printed
    for path in files.values():
        assert path.stat().st_size > 50
        assert str(path) in printed
    assert "<svg" in files["html"].read_text()


def test_report_judges_stored_counts_again(capsys, certified):
    lines = run(capsys, "report", certified / "certify" / "six", "--alpha", 0.2).splitlines()
    usual = run(capsys, "report", certified / "certify" / "six").splitlines()
    assert float(lines[2].split()[3]) > float(usual[2].split()[3])  # a larger alpha proves larger radii
    linf = run(capsys, "report", certified / "certify" / "six", "--norm", "linf").splitlines()
    _, _, norm, _, acr = linf[2].split()[:5]
    assert norm == "linf"
    assert float(acr) == pytest.approx(float(usual[2].split()[3]) / 28, abs=0.002)
