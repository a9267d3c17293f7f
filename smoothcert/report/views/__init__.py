"""The views of a report, by name: a new one is a file here and its name below (docs/adding-a-view.md)."""

from smoothcert.report.view import View
from smoothcert.report.views import (
    accuracy,
    attacks,
    classes,
    confidence,
    corruptions,
    differences,
    envelope,
    losses,
    published,
    radii,
    seeds,
    trade_offs,
)

VIEWS: dict[str, View] = {
    view.name: view
    for view in (
        accuracy.VIEW,
        published.VIEW,
        confidence.VIEW,
        differences.VIEW,
        envelope.VIEW,
        seeds.VIEW,
        trade_offs.VIEW,
        attacks.VIEW,
        radii.VIEW,
        corruptions.VIEW,
        corruptions.TYPES,
        classes.VIEW,
        losses.VIEW,
    )
}
