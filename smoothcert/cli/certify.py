"""`smoothcert certify`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from smoothcert.cli.frame import AtMostOne, DataDir, Device, Options, Place, Trust, command
from smoothcert.cli.output import check_name, selected
from smoothcert.cli.own_model import (
    Images,
    OwnModel,
    Subject,
    check_named,
    known_sigma,
    own_subject,
    run_subject,
)
from smoothcert.config import CertifyConfig
from smoothcert.errors import ConfigError
from smoothcert.progress import styled
from smoothcert.runs.remote import is_remote
from smoothcert.runs.selection import Selection

if TYPE_CHECKING:
    from smoothcert.runs.store import ResultStore


@command("Make", "out data sigma n alpha radii every max name device trust_code")
def certify(
    run: Place | None = None,
    /,
    *,
    own: Annotated[dict[str, Any], Options(OwnModel)],
    out: Path | None = None,
    data: str | None = None,
    settings: Annotated[dict[str, Any], Options(CertifyConfig)],
    subset: Annotated[dict[str, Any], Options(Selection)],
    name: str | None = None,
    split: Literal["test", "train"] = "test",
    shard: str = "0/1",
    trust_code: Trust = False,
    data_dir: DataDir = None,
    device: Device = "auto",
    batch_size: int | None = None,
    ray: AtMostOne = None,
) -> None:
    """Certify a model's answers on a data set; the same command resumes

    Args:
        run: run folder with a finished model; or name a model by --model
        out: with --model, the run folder to make
        data: other images than the run's (`smoothcert list data`); cifar10-c:fog/3, cifar10-c:fog and cifar10-c:all
            are corrupted ones, a store for each
        name: name of the certificates; default: the split or the corruption
        split: which images
        shard: i/N, the i-th (from 0) of N parts; auto, what no other process at the same certificates has taken
        batch_size: noisy copies at once; default: what suits the network
        ray: by the workers of the Ray cluster at this address, HOST:PORT or auto; without one, of this machine
    """
    from smoothcert.data.corruptions import corrupted

    network, selection = OwnModel(**own), selected(subset, shard)
    check_named(network, run, data=data, sigma=settings.get("sigma"), out=out)
    if run is not None and out is not None:
        raise ConfigError(
            "--out is of a network that --model names, and none is named: leave it out"
        )
    _check_settings(run, settings, name, batch_size, device if ray is None else None)
    corruptions = corrupted(data, data_dir) if data and network.model is None else []
    if corruptions and split != "test":
        raise ConfigError(f"{data} is of test images, found --split {split}: leave one out")
    if len(corruptions) > 1 and name is not None:
        raise ConfigError(
            f"--name {name} is for one store, but {data} is {len(corruptions)}: leave it out"
        )
    from smoothcert.certification.certify import certify_dataset  # PyTorch comes with it
    from smoothcert.devices.pick import pick_device

    place: Any = run if network.model is None else out
    for one in corruptions or (data,):
        images = Images(one, split, data_dir)
        if run is None:
            subject = own_subject(network, images, settings["sigma"], place)
        else:
            subject = run_subject(run, images, trust_code)
        store = certify_dataset(
            subject.model,
            subject.data,
            _store(place, check_name(name or subject.data.split.replace("/", "-")), shard),
            CertifyConfig(**{"sigma": subject.spec.sigma, **settings}),
            selection=selection,
            device=pick_device(device) if ray is None else device,
            batch_size=batch_size,
            executor="local" if ray is None else "ray",
            address=ray[0] if ray else None,
            when_checked=subject.keep,
        )
        _print(subject, store, selection)


def _check_settings(
    run: Place | None,
    settings: dict[str, Any],
    name: str | None,
    batch_size: int | None,
    device: str | None,
) -> None:
    """What no data could make right is refused before any is looked for."""
    from smoothcert.devices.pick import pick_device
    from smoothcert.statistics.procedure import Procedure

    sigma = known_sigma(run, settings)
    if not sigma:
        raise ConfigError(f"{run} was trained without noise: give sigma, the noise to certify with")
    Procedure.of(CertifyConfig(**{"sigma": sigma, **settings}))
    if name is not None:
        check_name(name)
    if batch_size is not None and batch_size < 1:
        raise ConfigError(f"--batch-size must be at least 1, found {batch_size}")
    if device is not None:
        pick_device(device)


def _print(subject: Subject, store: ResultStore, selection: Selection) -> None:
    from smoothcert.report import certificate_table, read_store
    from smoothcert.statistics.printed import UNITS

    if one := _only_class(subject, selection):
        print(
            f"note: the inputs are all of class {one}, the first of the data: --every takes them from all over it"
        )
    if not store.done():
        print(f"no input for shard {selection.share}: others have them all")
        return
    found = read_store(store.folder)
    print(certificate_table([found]).to_text(), file=styled(sys.stdout))
    print(UNITS)
    trained, sigma = subject.spec.sigma, found.identity["sigma"]
    if sigma != trained:
        made = "first certified" if subject.spec.source else "trained"
        print(f"{made} with sigma {trained:g}, now certified with {sigma:g}")


def _store(run: Place, name: str, shard: str) -> ResultStore:
    from smoothcert.runs.remote_store import RemoteStore
    from smoothcert.runs.store import ResultStore

    if not is_remote(run):
        return ResultStore(Path(run) / "certify" / name)
    if shard == "auto":
        raise ConfigError(
            "--shard auto asks a disk what others have taken, and a server cannot say it: give --shard i/N"
        )
    return RemoteStore.at(f"{run}/certify/{name}")


def _only_class(subject: Subject, selection: Selection) -> str:
    """The name of the one class that is chosen of data with several, as --max does where classes come one by one."""
    data = subject.data
    chosen = (
        {int(data.labels[i]) for i in selection.indices(len(data), data.name)}
        if data.labelled
        else set()
    )
    if len(chosen) != 1 or selection.max in (None, 1) or len(set(data.labels.tolist())) == 1:
        return ""
    return data.class_names[chosen.pop()] if data.class_names else str(chosen.pop())
