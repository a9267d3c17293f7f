"""`smoothcert explain`."""

from __future__ import annotations

from pathlib import Path

from smoothcert.cli.frame import DataDir, Device, Trust, command


@command("Look")
def explain(
    runs: tuple[Path, ...],
    /,
    *,
    index: tuple[int, ...] = (),
    ratios: int = 0,
    out: Path = Path("explain"),
    step: float = 1.0,
    steps: int = 8,
    noises: int = 128,
    seed: int = 0,
    trust_code: Trust = False,
    data_dir: DataDir = None,
    device: Device = "auto",
) -> None:
    """Adversarial paths of images, and where on them the answer changes

    Args:
        runs: run folders with finished models of one data set
        index: images whose adversarial paths to draw
        ratios: also: equal-confidence mixing ratios over this many test images
        out: folder for the figures and tables
        step: length of an unrestricted step (SmoothMix's alpha)
        steps: number of steps (SmoothMix's T)
        noises: noises of the smoothed confidence
        seed: seed of the noise
    """
    from smoothcert.evaluation.path_figures import explain_runs

    written = explain_runs(
        runs,
        out,
        indices=index,
        ratios=ratios,
        alpha=step,
        steps=steps,
        noises=noises,
        seed=seed,
        data_dir=data_dir,
        trust_code=trust_code,
        device=device,
    )
    for path in written:
        print(f"wrote {path}")
