"""How does the report show which quantizations were tried, and which layers cost most?"""

from collections.abc import Sequence

from shoal_converters.report.figures import write_figure, write_size, write_value
from shoal_converters.report.markup import Markup, element
from shoal_converters.report.results import Layer, Report, VariantResult
from shoal_converters.report.tables import badge, drop_cell, table

MOST_LAYERS = 12


def show_attempts(report: Report, *, scale: float) -> list[Markup]:
    """The attempts of each variant that has some, and its layers. `scale`: the largest drop that strips show."""
    parts = []
    for variant in report.variants:
        if not variant.attempts and not variant.layers:
            continue
        parts.append(element("h3", variant.name))
        if variant.attempts:
            parts.append(_attempts(variant, report, scale=scale))
        if variant.layers:
            parts.append(_layers(variant))
    return parts


def _attempts(variant: VariantResult, report: Report, *, scale: float) -> Markup:
    rows = []
    for number, one in enumerate(variant.attempts, start=1):
        keeps = one.drop <= report.max_drop  # not where it is not a number
        rows.append(
            (
                f"{number}. {one.method}",
                badge("keeps it", kind="good") if keeps else badge("too much", kind="bad"),
                write_value(one.value),
                drop_cell(one.drop, None, max_drop=report.max_drop, scale=scale),
                write_size(one.size_bytes),
                write_figure(one.seconds, unit="s"),
                one.note or "",
            )
        )
    return table(
        f"Tried in order of cost, until a drop of at most {report.max_drop:g} is kept",
        ("Method", "Budget", report.metric, "Change", "Size", "Took", "Note"),
        rows,
        numbers=(2, 3, 4, 5),
    )


def _layers(variant: VariantResult) -> Markup:
    ordered = sorted(variant.layers, key=lambda layer: -layer.sensitivity)
    shown = ordered[:MOST_LAYERS]
    largest = max((layer.sensitivity for layer in shown), default=0.0) or 1.0
    kept = sum(layer.is_kept_float for layer in variant.layers)
    caption = (
        f"Layers by what quantizing each alone costs: change of the model's outputs, relative; {kept} left in float"
    )
    if len(ordered) > len(shown):
        caption += f". The {len(shown)} most sensitive of {len(ordered)}"
    return table(
        caption,
        ("Layer", "Operator", "Sensitivity", "", "Computes in"),
        [_layer(layer, largest=largest) for layer in shown],
        numbers=(2,),
    )


def _layer(layer: Layer, *, largest: float) -> Sequence[str]:
    share = max(0.0, min(1.0, layer.sensitivity / largest))
    bar = element(
        "span",
        element("span", style=f"width:{share:.1%}"),
        class_="bar float" if layer.is_kept_float else "bar",
        aria_hidden="true",
    )
    kind = badge("float", kind="warm") if layer.is_kept_float else badge("int8", kind="plain")
    return (layer.name, layer.operator, write_figure(layer.sensitivity), bar, kind)
