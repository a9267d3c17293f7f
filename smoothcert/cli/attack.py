"""`smoothcert attack`."""

from __future__ import annotations

import dataclasses
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
from smoothcert.config import AttackConfig, N
from smoothcert.errors import ConfigError, StoreError, none_of

if TYPE_CHECKING:
    from smoothcert.report import Attacks, Certificates
    from smoothcert.runs.store import ResultStore

ABOUT = "Accuracy of the smoothed classifier under attack, beside what was certified."


def add_options(parser: ArgumentParser) -> None:
    add_run(parser)
    option(
        parser,
        "--against",
        str,
        None,
        "store of the certificates to compare with; default: test, if there is one",
    )
    option(parser, "--name", str, None, "name of the attack's store; default: the attack's")
    add_inputs(parser)
    add_settings(parser, AttackConfig, n=None)
    add_machine(parser)
    option(parser, "--svg", Path, None, "write the certified and empirical curves to this file")


def run(options: Options) -> None:
    from smoothcert.devices.pick import pick_device
    from smoothcert.evaluation.attack import attack_dataset
    from smoothcert.report import read_results
    from smoothcert.report.read.attacks import NothingAttacked, read_attacks
    from smoothcert.runs.attack_rows import unlike
    from smoothcert.runs.data_of import data_of_run
    from smoothcert.runs.folder import RunFolder
    from smoothcert.statistics.bounds import check_alpha
    from smoothcert.statistics.printed import doubt

    folder, name = RunFolder(options.run), check_name(options.name or options.attack)
    model, spec = folder.load_model(trust_code=options.trust_code)
    certificates = _certificates(folder.path, options.against)
    known = {"sigma": spec.sigma, **({"n": N} if options.as_printed else {})}
    config, selection = read_settings(options, AttackConfig, **known), read_selection(options)
    check_alpha(config.alpha)
    device = pick_device(options.device)
    store = attack_dataset(
        model,
        data_of_run(spec, options.split, options.data_dir),
        folder.path / "attack" / name,
        config,
        selection=selection,
        certificates=certificates if certificates.exists else None,
        device=device,
    )
    try:
        attacked = read_attacks(store.folder)
    except NothingAttacked as error:  # of a shard without inputs
        print(f"note: {error}")
        return
    differing = certificates.exists and unlike(attacked.identity, certificates.manifest().described)
    _print(
        attacked, read_results(certificates.folder) if certificates.done() and not differing else []
    )
    print(f"by PREDICT with n = {attacked.n} and alpha = {attacked.identity['alpha']:g}")
    if differing:
        print(
            f"note: the certificates of {certificates.folder} are left aside, since they differ in "
            f"{' and '.join(differing)}; --against names others"
        )
    elif certificates.exists and (told := doubt(certificates.manifest().identity.get("noise"))):
        print(f"note: certified by {told}")
    if options.svg is not None:
        _draw(attacked, certificates, folder.path.name, options.svg)


def _certificates(run: Path, name: str | None) -> ResultStore:
    """Those to compare with. What the user names must be there, or a misspelt name would switch the alarm off."""
    from smoothcert.runs.find import stores_of
    from smoothcert.runs.store import ResultStore

    folder = run / "certify"
    there = [store.name for store in stores_of(run) if ResultStore(store).exists]
    if name is not None and not there:
        raise ConfigError(
            f"--against {name} is a store of certificates, and {folder} has none: certify first"
        )
    if name is not None and name not in there:
        raise none_of(f"--against, the name of a store in {folder},", name, there)
    return ResultStore(folder / ("test" if name is None else check_name(name)))


def _print(attacked: Attacks, proved: list[Certificates]) -> None:
    """What the store says, and what the certificates do now: they may have more rows than when it was made."""
    from smoothcert.report.measures.attacked import empirical_rows
    from smoothcert.report.tables.attacks import alarms
    from smoothcert.statistics.printed import in_percent

    head = (
        "radius",
        "inputs",
        "under attack %",
        "abstain %",
        "certified %",
        "network alone %",
        "one noise %",
    )
    lines: list[tuple[str, ...]] = [head]
    for row in empirical_rows(attacked):
        shares = (row.empirical, row.abstained, row.certified, row.base, row.noisy)
        certain = (False, False, True, False, False)
        cells = (in_percent(*each) or "-" for each in zip(shares, certain, strict=True))
        lines.append((f"{row.radius:g}", str(row.inputs), *cells))
    print(aligned(lines))
    for alarm in alarms([attacked], proved):
        print(alarm)


def _draw(attacked: Attacks, certificates: ResultStore, name: str, path: Path) -> None:
    from smoothcert.files import write_text
    from smoothcert.report import attack_families, read_store
    from smoothcert.report.charts.attacks import attack_chart
    from smoothcert.report.charts.chart import chart_svg

    if not certificates.exists:
        raise StoreError(
            f"--svg draws certificates too, and {certificates.folder} has none: certify first"
        )
    proved = dataclasses.replace(read_store(certificates.folder), name=name)
    write_text(path, chart_svg(attack_chart(attack_families([attacked], [proved]))))
    print(f"wrote {path}")
