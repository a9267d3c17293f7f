"""The settings of training, certification and attacks, each defined once, in a frozen dataclass.

Command-line options, their defaults and help, config.yaml, the identity of a result store and the command that a report
prints are all derived from these. Knows only errors; importing it imports neither PyTorch nor a parser.
"""

from smoothcert.config.build import build_dataclass, read_mapping
from smoothcert.config.certification import AttackConfig, CertifyConfig
from smoothcert.config.choices import (
    AttackName,
    ExecutorName,
    Kernels,
    NoiseMode,
    Precision,
    TrainingPrecision,
    check_choice,
)
from smoothcert.config.settings import (
    ALPHA,
    N0,
    NOISE,
    N,
    as_options,
    check_seed,
    check_sigma,
    option_of,
    setting,
    settings_of,
)
from smoothcert.config.training import (
    PRETRAINED,
    SelfTraining,
    SoftLabels,
    TrainConfig,
    dump_config,
    read_config,
)

__all__ = [
    "ALPHA",
    "N0",
    "NOISE",
    "PRETRAINED",
    "AttackConfig",
    "AttackName",
    "CertifyConfig",
    "ExecutorName",
    "Kernels",
    "N",
    "NoiseMode",
    "Precision",
    "SelfTraining",
    "SoftLabels",
    "TrainConfig",
    "TrainingPrecision",
    "as_options",
    "build_dataclass",
    "check_choice",
    "check_seed",
    "check_sigma",
    "dump_config",
    "option_of",
    "read_config",
    "read_mapping",
    "setting",
    "settings_of",
]
