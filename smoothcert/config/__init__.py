"""The settings of training, certification and attacks, each defined once, in a frozen dataclass.

Command-line options, their defaults and help, config.yaml, the identity of a result store and the command that a report
prints are all derived from these: a setting is a field with a docstring below it. Knows only errors; importing it
imports neither PyTorch nor what reads a command line.
"""

from smoothcert.config.certification import AttackConfig, CertifyConfig
from smoothcert.config.choices import (
    AttackName,
    ExecutorName,
    Kernels,
    NoiseMode,
    Precision,
    TrainingPrecision,
    check_choice,
    check_seed,
    check_sigma,
)
from smoothcert.config.read import as_options, checked, explained, option_of, read_mapping
from smoothcert.config.training import (
    PRETRAINED,
    SelfTraining,
    SoftLabels,
    TrainConfig,
    dump_config,
    read_config,
)

__all__ = [
    "PRETRAINED",
    "AttackConfig",
    "AttackName",
    "CertifyConfig",
    "ExecutorName",
    "Kernels",
    "NoiseMode",
    "Precision",
    "SelfTraining",
    "SoftLabels",
    "TrainConfig",
    "TrainingPrecision",
    "as_options",
    "check_choice",
    "check_seed",
    "check_sigma",
    "checked",
    "dump_config",
    "explained",
    "option_of",
    "read_config",
    "read_mapping",
]
