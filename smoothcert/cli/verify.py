"""`smoothcert verify`."""

from __future__ import annotations

import sys

from smoothcert.cli.frame import DataDir, Device, Json, Place, Trust, command
from smoothcert.cli.output import print_json
from smoothcert.errors import ConfigError
from smoothcert.progress import printable

_SHOWN = 20  # problems and notes of a store


@command("Check and share")
def verify(
    place: Place,
    /,
    *,
    resample: str | None = None,
    seed: int | None = None,
    trust_code: Trust = False,
    json: Json = False,
    data_dir: DataDir = None,
    device: Device = "auto",
) -> None:
    """Check stored certificates by code that did not make them

    Exit status: 0 verified, 1 something differs or is damaged, 3 nothing is wrong but inputs are missing.

    Args:
        place: run folder, certificate store or pack
        resample: also certify this share (1%) or number of the inputs again
        seed: seed of the choice of these inputs; default: the system's randomness
    """
    from smoothcert.runs.remote import local, shown
    from smoothcert.verification.resample import Resampling
    from smoothcert.verification.verdict import STATUS
    from smoothcert.verification.verify import verify

    if seed is not None and resample is None:
        raise ConfigError(
            "--seed chooses the inputs of --resample, which is not given: add --resample 1%, for example"
        )
    again = None
    if resample is not None:
        again = Resampling(resample, seed, device, json, trust_code)
    verdicts = verify(local(place, weights=True), data_dir=data_dir, resampling=again)
    if json:
        print_json({"stores": [verdict.values() for verdict in verdicts]})
    else:
        for verdict in verdicts:
            missing = [f"input {index}" for index in verdict.missing]
            for kind, texts in (
                ("problem", verdict.problems),
                ("missing", missing),
                ("note", verdict.notes),
            ):
                for text in texts[:_SHOWN]:
                    print(f"  {kind}: {printable(shown(text))}")
                if len(texts) > _SHOWN:
                    print(f"  ... and {len(texts) - _SHOWN} more: --json prints them all")
            print(f"{printable(shown(verdict.name))}: {verdict.text}")
    answers = {verdict.answer for verdict in verdicts}
    status = next((STATUS[answer] for answer in ("differs", "incomplete") if answer in answers), 0)
    if status:
        sys.exit(status)
