"""smoothcert: image classifiers whose answers come with a proof. Names load on first use; importing is instant."""

from __future__ import annotations

TYPE_CHECKING = (
    False  # as in typing, which takes longer to import than all else before a command heeds Ctrl-C
)

if TYPE_CHECKING:
    from typing import Any

    from smoothcert.certification.certify import certify_dataset
    from smoothcert.certification.loader import certify_loader
    from smoothcert.certification.smoothed import SmoothedClassifier
    from smoothcert.config import AttackConfig, CertifyConfig, TrainConfig
    from smoothcert.data import Dataset, from_torch, load_dataset
    from smoothcert.errors import SmoothcertError
    from smoothcert.evaluation.attack import attack_dataset
    from smoothcert.models import build_model, load_published
    from smoothcert.recipes import load_recipe
    from smoothcert.report import (
        Report,
        average_certified_radius,
        certified_accuracy,
        load,
        read_results,
    )
    from smoothcert.runs.loading import load_model
    from smoothcert.runs.selection import Selection
    from smoothcert.statistics.procedure import Certificate
    from smoothcert.training.fit import fit

__version__ = "0.1.0"

_HOME = {
    "Certificate": "statistics.procedure",
    "Selection": "runs.selection",
    "certify_dataset": "certification.certify",
    "certify_loader": "certification.loader",
    "AttackConfig": "config",
    "CertifyConfig": "config",
    "TrainConfig": "config",
    "load_recipe": "recipes",
    "Dataset": "data",
    "from_torch": "data",
    "load_dataset": "data",
    "SmoothcertError": "errors",
    "attack_dataset": "evaluation.attack",
    "build_model": "models",
    "load_published": "models",
    "average_certified_radius": "report",
    "certified_accuracy": "report",
    "read_results": "report",
    "Report": "report",
    "load": "report",
    "load_model": "runs.loading",
    "SmoothedClassifier": "certification.smoothed",
    "fit": "training.fit",
}

__all__ = [
    "AttackConfig",
    "Certificate",
    "CertifyConfig",
    "Dataset",
    "Report",
    "Selection",
    "SmoothcertError",
    "SmoothedClassifier",
    "TrainConfig",
    "attack_dataset",
    "average_certified_radius",
    "build_model",
    "certified_accuracy",
    "certify_dataset",
    "certify_loader",
    "fit",
    "from_torch",
    "load",
    "load_dataset",
    "load_model",
    "load_published",
    "load_recipe",
    "read_results",
]


def __getattr__(name: str) -> Any:
    from smoothcert.imports import lazy

    return lazy(__name__, _HOME)[0](name)


def __dir__() -> list[str]:
    return list(__all__)
