"""`smoothcert certify`."""

from __future__ import annotations

import sys
from pathlib import Path

from jsonargparse import ArgumentParser

from smoothcert.cli.options import (
    Options,
    add_inputs,
    add_machine,
    add_settings,
    add_trust,
    check_name,
    option,
    place,
    read_selection,
    read_settings,
    whole_number,
)
from smoothcert.cli.own_model import Subject, add_own_model, known_sigma, own_subject, run_subject
from smoothcert.config import CertifyConfig, ExecutorName
from smoothcert.errors import ConfigError
from smoothcert.progress import styled
from smoothcert.runs.remote import is_remote
from smoothcert.runs.selection import Selection
from smoothcert.runs.store import ResultStore

ABOUT = "Certify a trained model's answers on a data set; resumes by itself."


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "run",
        type=place,
        nargs="?",
        help="run folder with a finished model; or name one by --model",
    )
    add_trust(parser)
    add_own_model(parser)
    option(
        parser, "--out", Path, None, "with --model: run folder to make; the same command resumes"
    )
    option(
        parser,
        "--name",
        str,
        None,
        "name of the certificate store; default: the split or the corruption",
    )
    add_inputs(parser)
    option(
        parser,
        "--corruption",
        str,
        None,
        "certify on this corruption of CIFAR-10-C or MNIST-C, or on all of them",
    )
    graded = "severity 1 to 5 of the corruption; default, and without a value: all"
    parser.add_argument(
        "--severity", type=_severity, nargs="?", const="all", default=None, help=graded
    )
    add_settings(parser, CertifyConfig)
    add_machine(parser)
    option(
        parser, "--batch-size", int, None, "noisy copies at once; default: what suits the network"
    )
    option(
        parser, "--executor", ExecutorName, "local", "this process, or the workers of a Ray cluster"
    )
    option(
        parser,
        "--address",
        str,
        None,
        "of the Ray cluster, HOST:PORT or auto; default: one on this machine alone",
    )


def run(options: Options) -> None:
    if options.severity is not None and options.corruption is None:
        raise ConfigError(
            f"--severity {options.severity} is of a corruption: name it by --corruption, or leave it out"
        )
    if options.severity == "all":
        options.severity = None
    _check_settings(options)
    stores = _corrupted(options)
    if len(stores) > 1 and options.name is not None:
        raise ConfigError(
            f"--name {options.name} is for one store, but these are {len(stores)}: leave it out"
        )
    for store in stores:
        _certify(store)


def _check_settings(options: Options) -> None:
    """What no data could make right is told before any is looked for."""
    from smoothcert.devices.pick import pick_device
    from smoothcert.statistics.procedure import Procedure

    sigma = known_sigma(options)
    if sigma == 0:
        raise ConfigError(
            f"{options.run} was trained without noise: give --sigma, the noise to certify with"
        )
    if sigma is not None:  # else more is missing
        Procedure.of(read_settings(options, CertifyConfig, sigma=sigma))
    if options.name is not None:
        check_name(options.name)
    if options.batch_size is not None and options.batch_size < 1:
        raise ConfigError(f"--batch-size must be at least 1, found {options.batch_size}")
    if options.executor == "local":
        pick_device(options.device)


def _severity(text: str | int) -> str | int:
    """A number, which the parser also gives to check what it has read, or all of them."""
    try:
        return text if text == "all" else whole_number(str(text))
    except ValueError:
        raise ConfigError(
            f"--severity takes a whole number from 1 to 5 or all, found '{text}'"
        ) from None


def _corrupted(options: Options) -> list[Options]:
    """The same for each corruption and severity that is asked for; each has a store of its own.

    All of them can be loaded: certifying the first may take hours, and what the last lacks is told before that.
    """
    from smoothcert.data.corruptions import CORRUPTIONS, SEVERITIES, benchmark_for, check_corrupted
    from smoothcert.runs.folder import RunFolder
    from smoothcert.runs.remote import local

    if options.corruption is None or options.run is None or options.model is not None:
        return [options]
    if options.data is not None:
        raise ConfigError("--corruption and --data both name images: leave one out")
    if options.split != "test":
        raise ConfigError(
            f"--corruption is of test images, found --split {options.split}: leave one out"
        )
    benchmark = benchmark_for(RunFolder(local(options.run)).spec().dataset)
    kinds = CORRUPTIONS[benchmark] if options.corruption == "all" else (options.corruption,)
    graded = options.severity is None and benchmark == "cifar10-c"
    severities = SEVERITIES if graded else (options.severity,)
    check_corrupted(benchmark, kinds, severities[0], options.data_dir)
    chosen = []
    for kind in kinds:
        for severity in severities:
            one = options.clone()
            one.corruption, one.severity = kind, severity
            chosen.append(one)
    return chosen


def _certify(options: Options) -> None:
    from smoothcert.certification.certify import certify_dataset
    from smoothcert.devices.pick import pick_device
    from smoothcert.report import certificate_table, read_store
    from smoothcert.statistics.printed import UNITS

    selection = read_selection(options)
    subject = own_subject(options) if options.model is not None else run_subject(options)
    settings = read_settings(options, CertifyConfig, sigma=subject.spec.sigma)
    name = check_name(options.name or subject.data.split.replace("/", "-"))
    store = certify_dataset(
        subject.model,
        subject.data,
        _store(options, name),
        settings,
        selection=selection,
        device=options.device if options.executor == "ray" else pick_device(options.device),
        batch_size=options.batch_size,
        executor=options.executor,
        address=options.address,
        when_checked=subject.keep,
    )
    if one := _only_class(subject, selection):
        print(
            f"note: the inputs are all of class {one}, the first of the data: --every takes them from all over it"
        )
    if store.done():
        table = certificate_table([read_store(store.folder)])
        print(table.to_text(), file=styled(sys.stdout))
        print(UNITS)
        if options.sigma not in (None, subject.spec.sigma):
            made = "first certified" if subject.spec.source else "trained"
            print(f"{made} with sigma {subject.spec.sigma:g}, now certified with {options.sigma:g}")
    else:
        print(f"no input for shard {options.shard}: others have them all")


def _store(options: Options, name: str) -> ResultStore:
    from smoothcert.runs.remote_store import RemoteStore

    run = options.out if options.model is not None else options.run
    if is_remote(run) and options.shard == "auto":
        raise ConfigError(
            "--shard auto asks a disk what others have taken, and a server cannot say it: give --shard i/N"
        )
    return (
        RemoteStore.at(f"{run}/certify/{name}")
        if is_remote(run)
        else ResultStore(run / "certify" / name)
    )


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
