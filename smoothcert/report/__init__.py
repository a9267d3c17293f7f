"""Certificates -> measures, tables, curves and a page. Nothing here needs torch."""

from smoothcert.report.analysis import (
    abstention_rate,
    average_certified_radius,
    certified_accuracy,
    clean_accuracy,
    median_radius,
)
from smoothcert.report.certificates import Certificates, read_log, read_results, read_store
from smoothcert.report.curves import curve_svg
from smoothcert.report.page import write_report
from smoothcert.report.tables import certificate_table

__all__ = [
    "Certificates",
    "abstention_rate",
    "average_certified_radius",
    "certificate_table",
    "certified_accuracy",
    "clean_accuracy",
    "curve_svg",
    "median_radius",
    "read_log",
    "read_results",
    "read_store",
    "write_report",
]
