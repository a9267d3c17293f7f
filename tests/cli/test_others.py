"""The commands explain, input-noise, selftest-noise and demo."""

from tests.cli.commands import fails, run


def test_explain_draws_paths_and_ratios(capsys, certified, tmp_path):
    arguments = ["--index", 0, "--ratios", 3, "--noises", 4, "--steps", 2, "--out", tmp_path]
    assert run(capsys, "explain", certified, *arguments).count("wrote") == 3
    assert "smoothed confidence" in (tmp_path / "a-0.svg").read_text()
    assert (tmp_path / "mixing-ratios.tsv").read_text().startswith("run\tratio\na\t")
    assert "nothing to explain" in fails(capsys, "explain", certified, "--out", tmp_path)
    assert "images 0 to 999, found index 1000" in fails(
        capsys, "explain", certified, "--index", 1000, "--out", tmp_path
    )


def test_input_noise_computes_the_bound(capsys, tmp_path):
    settings = ["--p", 0.9, "--sigma", 0.5, "--tau", 0.6, "--epsilon", 0.1]
    printed = run(capsys, "input-noise", *settings, "--svg", tmp_path / "bound.svg")
    assert "C = 814.017" in printed
    assert "input dimension" in (tmp_path / "bound.svg").read_text()


def test_selftest_noise_passes_and_says_what_it_tested(capsys):
    printed = run(capsys, "selftest-noise", "--noise", "exact", "--samples", 2**18, "--device", "cpu")
    assert printed.startswith("exact noise on cpu, 262144 values\n")
    assert printed.count("\n") > 5


def test_the_demo_tells_the_whole_story(capsys, tmp_path):
    printed = run(capsys, "demo", "--out", tmp_path / "demo", "--images", 5, "--n", 100, "--epochs", 1)
    assert "gaussian" in printed
    assert "consistency" in printed
    assert "gaussian" in (tmp_path / "demo" / "report.html").read_text()
    again = run(capsys, "demo", "--out", tmp_path / "demo", "--images", 5, "--n", 100, "--epochs", 1)
    assert again.splitlines()[:4] == printed.splitlines()[:4]
