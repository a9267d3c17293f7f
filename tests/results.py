"""Certification and attacks with their settings as keywords, as most tests have them."""

import dataclasses

from smoothcert import AttackConfig, CertifyConfig, certify_dataset
from smoothcert.evaluation.attack import attack_dataset
from smoothcert.runs.rows import CHECK
from smoothcert.runs.state import run_states
from smoothcert.runs.status import run_lines


def certify_with(model, data, out, **settings):
    """certify_dataset() with the settings of CertifyConfig and its own arguments together."""
    config, rest = _split(CertifyConfig, settings)
    return certify_dataset(model, data, out, config, **rest)


def attack_with(model, data, out, **settings):
    config, rest = _split(AttackConfig, settings)
    return attack_dataset(model, data, out, config, **rest)


def _split(kind, settings):
    names = {field.name for field in dataclasses.fields(kind)}
    rest = {name: value for name, value in settings.items() if name not in names}
    return kind(**{name: value for name, value in settings.items() if name in names}), rest


def cells(store):
    """The rows of a store as lists of cells, in the order of its columns, without the check: it chains times too."""
    return [[row[name] for name in store.columns if name != CHECK] for row in store.rows()]


def status_lines(path):
    """What `smoothcert status` prints of a place."""
    return [line for state in run_states(path) for line in run_lines(state)]
