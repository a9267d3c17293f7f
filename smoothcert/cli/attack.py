"""`smoothcert attack`."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from smoothcert.cli.frame import DataDir, Device, Options, Trust, command
from smoothcert.cli.output import aligned, check_name, selected
from smoothcert.config import AttackConfig, CertifyConfig
from smoothcert.errors import ConfigError, StoreError, none_of
from smoothcert.runs.selection import Selection

if TYPE_CHECKING:
    from smoothcert.report import Attacks, Certificates
    from smoothcert.runs.store import ResultStore


@command("Make", "against name radii attack noises steps every max n device")
def attack(
    run: Path,
    /,
    *,
    against: str | None = None,
    name: str | None = None,
    settings: Annotated[dict[str, Any], Options(AttackConfig, needs="radii")],
    split: Literal["test", "train"] = "test",
    subset: Annotated[dict[str, Any], Options(Selection)],
    shard: str = "0/1",
    trust_code: Trust = False,
    data_dir: DataDir = None,
    device: Device = "auto",
    svg: Path | None = None,
) -> None:
    """Accuracy that is left under attack, beside what was certified

    Args:
        run: run folder with a finished model
        against: certificates to compare with; default: test, if there are some
        name: name of what the attack finds; default: the attack's
        split: which images
        shard: i/N, the i-th (from 0) of N parts; auto, what no other process at the same results has taken
        svg: write the certified and empirical curves to this file
    """
    from smoothcert.devices.pick import pick_device
    from smoothcert.evaluation.attack import attack_dataset
    from smoothcert.report import read_results
    from smoothcert.report.plot import check_suffix
    from smoothcert.report.read.attacks import NothingAttacked, read_attacks
    from smoothcert.runs.attack_rows import unlike
    from smoothcert.runs.data_of import data_of_run
    from smoothcert.runs.folder import RunFolder
    from smoothcert.statistics.bounds import check_alpha
    from smoothcert.statistics.printed import doubt

    if svg is not None:
        check_suffix(svg)
    name = check_name(name or settings.get("attack", AttackConfig.attack))
    model, spec = RunFolder(run).load_model(trust_code=trust_code)
    certificates = _certificates(run, against)
    known = {"sigma": spec.sigma, **({"n": CertifyConfig.n} if settings.get("as_printed") else {})}
    config, selection = AttackConfig(**{**known, **settings}), selected(subset, shard)
    check_alpha(config.alpha)
    place = pick_device(device)
    store = attack_dataset(
        model,
        data_of_run(spec, split, data_dir),
        run / "attack" / name,
        config,
        selection=selection,
        certificates=certificates if certificates.exists else None,
        device=place,
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
    if svg is not None:
        _draw(attacked, certificates, run.name, svg)


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
    from smoothcert.report.attack_values import alarms
    from smoothcert.report.measures.attacked import empirical_rows
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
    from smoothcert.report import attack_families, read_store, save
    from smoothcert.report.views.attacks import attack_figure

    if not certificates.exists:
        raise StoreError(
            f"--svg draws certificates too, and {certificates.folder} has none: certify first"
        )
    proved = dataclasses.replace(read_store(certificates.folder), name=name)
    save(attack_figure(attack_families([attacked], [proved])), path)
    print(f"wrote {path}")
