"""`smoothcert attack`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from jsonargparse import ArgumentParser

from smoothcert.cli.options import (
    Options,
    add_inputs,
    add_machine,
    add_run,
    add_settings,
    aligned,
    check_name,
    option,
    read_selection,
    read_settings,
)
from smoothcert.config import AttackConfig
from smoothcert.errors import StoreError

if TYPE_CHECKING:
    from smoothcert.evaluation.attack import EmpiricalRow
    from smoothcert.runs.store import ResultStore

ABOUT = "Accuracy of the smoothed classifier under attack, beside what was certified."


def add_options(parser: ArgumentParser) -> None:
    add_run(parser)
    option(parser, "--against", str, "test", "store of the certificates to compare with")
    option(parser, "--name", str, None, "name of the attack's store; default: the attack's")
    add_inputs(parser)
    add_settings(parser, AttackConfig)
    add_machine(parser)
    option(parser, "--svg", Path, None, "write the certified and empirical curves to this file")


def run(options: Options) -> None:
    from smoothcert.devices.pick import pick_device
    from smoothcert.evaluation.attack import attack_dataset, summarise
    from smoothcert.runs.data_of import data_of_run
    from smoothcert.runs.folder import RunFolder
    from smoothcert.runs.store import ResultStore
    from smoothcert.statistics.printed import doubt

    folder, name = RunFolder(options.run), check_name(options.name or options.attack)
    model, spec = folder.load_model(trust_code=options.trust_code)
    certificates = ResultStore(folder.path / "certify" / options.against)
    store = attack_dataset(
        model,
        data_of_run(spec, options.split, options.data_dir),
        folder.path / "attack" / name,
        read_settings(options, AttackConfig, sigma=spec.sigma),
        selection=read_selection(options),
        certificates=certificates if certificates.exists else None,
        device=pick_device(options.device),
    )
    found = summarise(store)
    _print(found)
    if certificates.exists and (told := doubt(certificates.manifest().identity.get("noise"))):
        print(f"note: certified by {told}")
    if options.svg is not None:
        attacked = sorted({int(row["idx"]) for row in store.rows()})
        _draw(found, certificates, attacked, folder.path.name, options)


def _print(found: Sequence[EmpiricalRow]) -> None:
    lines = [("radius", "inputs", "under attack %", "abstain %", "certified %")]
    for row in found:
        certified = "-" if row.certified is None else f"{100 * row.certified:.1f}"
        shares = (f"{100 * row.empirical:.1f}", f"{100 * row.abstained:.1f}", certified)
        lines.append((f"{row.radius:g}", str(row.inputs), *shares))
    print(aligned(lines))
    for row in found:
        if row.alarms:
            shown = ", ".join(map(str, row.alarms[:10]))
            print(
                f"SOUNDNESS ALARM at radius {row.radius:g}: inputs {shown} answer otherwise "
                "inside their certified radius"
            )


def _draw(
    found: Sequence[EmpiricalRow], certificates: ResultStore, attacked: Sequence[int], name: str, options: Options
) -> None:
    import numpy as np

    from smoothcert.files import write_text
    from smoothcert.report import read_store
    from smoothcert.report.charts.evaluations import attack_svg

    if not certificates.exists:
        raise StoreError(f"--svg draws certificates too, and {certificates.folder} has none: certify first")
    proved = read_store(certificates.folder)
    proved = proved.where(np.isin(proved.idx, attacked))  # the attacked inputs alone
    points = ([row.radius for row in found], [row.empirical for row in found])
    write_text(options.svg, attack_svg(dataclasses.replace(proved, name=name), {options.attack: points}))
    print(f"wrote {options.svg}")
