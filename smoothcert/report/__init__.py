"""Certificates -> measures, tables, charts and a page. Nothing here needs torch."""

from smoothcert.report.analysis import (
    abstention_rate,
    average_certified_radius,
    certified_accuracy,
    certified_accuracy_linf,
    certified_accuracy_whp,
    clean_accuracy,
    linf_radius,
    median_radius,
)
from smoothcert.report.bootstrap import paired_bootstrap
from smoothcert.report.certificates import Certificates
from smoothcert.report.classes import per_class
from smoothcert.report.confidence import p_ecdf, p_lower, saturation_radius
from smoothcert.report.corruptions import (
    corrupted_stores,
    corruption_means,
    corruption_table,
    corruption_types_table,
    read_corruptions,
)
from smoothcert.report.curves import curve_svg
from smoothcert.report.envelope import upper_envelope
from smoothcert.report.figure import save_figure
from smoothcert.report.page import write_report
from smoothcert.report.published import find_published, published_rows
from smoothcert.report.reading import read_log, read_results, read_store
from smoothcert.report.seeds import seed_groups, seed_summary
from smoothcert.report.tables import certificate_table
from smoothcert.report.tradeoff import trade_offs

__all__ = [
    "Certificates",
    "abstention_rate",
    "average_certified_radius",
    "certificate_table",
    "certified_accuracy",
    "certified_accuracy_linf",
    "certified_accuracy_whp",
    "clean_accuracy",
    "corrupted_stores",
    "corruption_means",
    "corruption_table",
    "corruption_types_table",
    "curve_svg",
    "find_published",
    "linf_radius",
    "median_radius",
    "p_ecdf",
    "p_lower",
    "paired_bootstrap",
    "per_class",
    "published_rows",
    "read_corruptions",
    "read_log",
    "read_results",
    "read_store",
    "saturation_radius",
    "save_figure",
    "seed_groups",
    "seed_summary",
    "trade_offs",
    "upper_envelope",
    "write_report",
]
