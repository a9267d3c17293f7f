"""Stores and logs -> certificates (read) -> measures -> charts and tables -> page; each imports only from those before.

Nothing here needs PyTorch. It must not know how certificates are sampled: it reads what is stored, and checks that the
stored counts prove it.
"""

from smoothcert.report.charts.curves import curve_svg
from smoothcert.report.charts.figure import save_figure
from smoothcert.report.measures.across_seeds import seed_groups, seed_summary
from smoothcert.report.measures.analysis import (
    abstention_rate,
    average_certified_radius,
    average_radius,
    certified_accuracy,
    certified_accuracy_linf,
    certified_accuracy_whp,
    certified_share,
    clean_accuracy,
    linf_radius,
    median_radius,
)
from smoothcert.report.measures.attack_curves import attack_families
from smoothcert.report.measures.attacked import empirical_rows
from smoothcert.report.measures.bootstrap import paired_bootstrap
from smoothcert.report.measures.classes import per_class
from smoothcert.report.measures.confidence import p_ecdf, p_lower
from smoothcert.report.measures.envelope import envelope_curve, upper_envelope
from smoothcert.report.measures.groups import groups_of
from smoothcert.report.measures.intervals import run_intervals, share_intervals
from smoothcert.report.measures.norms import log_in_linf
from smoothcert.report.measures.overlays import overlays
from smoothcert.report.measures.published_comparison import find_published
from smoothcert.report.measures.tradeoff import trade_offs
from smoothcert.report.page.page import write_report
from smoothcert.report.read.attacks import Attacks, read_attack_stores, read_attacks
from smoothcert.report.read.certificates import Certificates
from smoothcert.report.read.reading import read_log, read_results, read_store
from smoothcert.report.read.trainings import (
    Training,
    is_training_log,
    read_training_log,
    read_trainings,
)
from smoothcert.report.tables.attacks import alarms, attack_table, attack_values, base_table
from smoothcert.report.tables.confidence import confidence_table
from smoothcert.report.tables.corruptions import (
    Corrupted,
    corrupted_stores,
    corruption_means,
    corruption_table,
    corruption_types_table,
    corruption_types_tables,
    read_corruptions,
)
from smoothcert.report.tables.differences import difference_table
from smoothcert.report.tables.envelopes import (
    abstention_table,
    envelope_values,
    group_envelope_table,
)
from smoothcert.report.tables.files import write_tables
from smoothcert.report.tables.formats import texts_together
from smoothcert.report.tables.parts import Material, report_tables
from smoothcert.report.tables.tables import certificate_table
from smoothcert.report.tables.values import (
    corruption_values,
    difference_values,
    report_values,
    trade_off_values,
)
from smoothcert.statistics.saturation import saturation_radius

__all__ = [
    "Attacks",
    "Certificates",
    "Corrupted",
    "Material",
    "Training",
    "abstention_rate",
    "abstention_table",
    "alarms",
    "attack_families",
    "attack_table",
    "attack_values",
    "average_certified_radius",
    "average_radius",
    "base_table",
    "certificate_table",
    "certified_accuracy",
    "certified_accuracy_linf",
    "certified_accuracy_whp",
    "certified_share",
    "clean_accuracy",
    "confidence_table",
    "corrupted_stores",
    "corruption_means",
    "corruption_table",
    "corruption_types_table",
    "corruption_types_tables",
    "corruption_values",
    "curve_svg",
    "difference_table",
    "difference_values",
    "empirical_rows",
    "envelope_curve",
    "envelope_values",
    "find_published",
    "group_envelope_table",
    "groups_of",
    "is_training_log",
    "linf_radius",
    "log_in_linf",
    "median_radius",
    "overlays",
    "p_ecdf",
    "p_lower",
    "paired_bootstrap",
    "per_class",
    "read_attack_stores",
    "read_attacks",
    "read_corruptions",
    "read_log",
    "read_results",
    "read_store",
    "read_training_log",
    "read_trainings",
    "report_tables",
    "report_values",
    "run_intervals",
    "saturation_radius",
    "save_figure",
    "seed_groups",
    "seed_summary",
    "share_intervals",
    "texts_together",
    "trade_off_values",
    "trade_offs",
    "upper_envelope",
    "write_report",
    "write_tables",
]
