"""The section of the page on accuracy under attack."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from smoothcert.errors import ConfigError
from smoothcert.report.measures.attack_curves import attack_families
from smoothcert.report.plot import inline_svg
from smoothcert.report.read.attacks import Attacks
from smoothcert.report.read.certificates import Certificates
from smoothcert.report.views.attacks import alarms, attack_figure, attack_table, base_table


def attack_section(attacks: Sequence[Attacks], results: Sequence[Certificates]) -> dict[str, Any]:
    """Its entries of the context of the page: all empty where nothing was attacked."""
    from markupsafe import Markup

    if not attacks:
        return {
            "alarms": alarms([], results),
            "attacks": None,
            "attack_chart": None,
            "attack_notes": [],
            "base": None,
        }
    chart, notes = None, []
    try:
        families = attack_families(attacks, results)
    except ConfigError as error:  # the table stands without it
        notes = [str(error)]
    else:
        # lines that are no runs of the page's legends stay when a run is switched off
        chart = Markup(
            inline_svg(attack_figure(families, first_run=len(results)), "attack-chart", keys=True)
        )
        notes = [note for family in families for note in family.notes]
    table, known = attack_table(attacks, results), any(a.base_predict is not None for a in attacks)
    return {
        "alarms": alarms(attacks, results),
        "attacks": table,
        "attack_chart": chart,
        "attack_notes": [*table.notes, *notes],
        "base": base_table(attacks, results) if known else None,
    }
