"""`smoothcert certify`."""

from __future__ import annotations

from jsonargparse import ArgumentParser

from smoothcert.cli.options import (
    Options,
    add_inputs,
    add_machine,
    add_run,
    add_settings,
    check_name,
    option,
    read_selection,
    read_settings,
)
from smoothcert.config import CertifyConfig
from smoothcert.errors import ConfigError

ABOUT = "Certify a trained model's answers on a data set; resumes by itself."


def add_options(parser: ArgumentParser) -> None:
    add_run(parser)
    option(parser, "--name", str, None, "name of the certificate store; default: the split or the corruption")
    add_inputs(parser)
    option(parser, "--corruption", str, None, "certify on this corruption of CIFAR-10-C or MNIST-C")
    option(parser, "--severity", int, None, "severity 1 to 5 of the corruption; default: all")
    add_settings(parser, CertifyConfig)
    add_machine(parser)
    option(parser, "--batch-size", int, None, "noisy copies at once; default: what suits the network")


def run(options: Options) -> None:
    from smoothcert.certification.certify import certify_dataset
    from smoothcert.data import Dataset, LazyDataset, load_dataset
    from smoothcert.data.corruptions import load_corrupted
    from smoothcert.devices.pick import pick_device
    from smoothcert.report import certificate_table, read_store
    from smoothcert.runs.folder import RunFolder

    if options.severity is not None and options.corruption is None:
        raise ConfigError(f"--severity {options.severity} is of a corruption: name it by --corruption, or leave it out")
    selection = read_selection(options)
    folder = RunFolder(options.run)
    model, spec = folder.load_model(trust_code=options.trust_code)
    data: Dataset | LazyDataset
    if options.corruption is not None:
        data = load_corrupted(f"{spec.dataset}-c", options.corruption, options.severity, options.data_dir)
        name = data.split.replace("/", "-")
    else:
        data, name = load_dataset(spec.dataset, options.split, options.data_dir), options.split
    store = certify_dataset(
        model,
        data,
        folder.path / "certify" / check_name(options.name or name),
        read_settings(options, CertifyConfig, sigma=spec.sigma),
        selection=selection,
        device=pick_device(options.device),
        batch_size=options.batch_size,
    )
    if store.done():
        print(certificate_table([read_store(store.folder)]).to_text())
        if options.sigma not in (None, spec.sigma):
            print(f"trained with sigma {spec.sigma:g}, certified with {options.sigma:g}")
    else:
        print(f"no input for shard {options.shard}: others have them all")
