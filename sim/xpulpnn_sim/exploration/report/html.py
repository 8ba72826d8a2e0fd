"""The HTML report of an exploration."""

from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup

from xpulpnn_sim.exploration.finished_run import FinishedRun
from xpulpnn_sim.exploration.report import comparison, tables
from xpulpnn_sim.exploration.report.cluster_plots import clustered, scaling_figure
from xpulpnn_sim.exploration.report.hierarchy import (
    area_plots,
    energy_plots,
    placement_plot,
    point_name,
)
from xpulpnn_sim.exploration.report.trade_offs import trade_offs
from xpulpnn_sim.exploration.results import PointResult
from xpulpnn_sim.tools.pages import Page, Plot, choice, chosen_option, controls, hint, notes

_FRONT = (
    "The dotted line is the Pareto front: no point is better than those on it in both figures. There is no line where "
    "one point is the best in both. "
)
_BARS = "Bars reach from the least to the largest figure of several runs. "
_HOW_TO_READ = (
    "Names and numbers are those of the points in the table; an arrow tells which way is better. Hover for the values, "
    "click a point to select it below."
)
_NO_PLOTS = "There are no plots: each takes two points that have both of its figures and differ in both."
_SEE = hint(Markup('<a href="#conditions">Conditions of these figures</a>'))


def write_report(path: Path, run: FinishedRun) -> None:
    points = run.points
    page = Page(title=run.title, command=run.command, writer="xpulpnn explore", facts=_facts(run))
    failed = [(number, point) for number, point in enumerate(points, 1) if point.failed]
    if failed:
        item = Markup("<li><strong>{} {}</strong> <span>{}</span></li>\n")
        listed = Markup().join(item.format(number, point.label, point.error) for number, point in failed)
        page.section("failed", "Failed points", Markup('<ul class="errors">\n{}</ul>').format(listed), link="Failed")
    for number, extra in enumerate(run.extra, 1):
        page.section(f"table-{number}", extra.title, extra)
    _figures(page, run)
    _details(page, points)
    configurations = tables.configuration_table(points)
    page.section("configurations", configurations.title, configurations)
    page.write(path)


def _facts(run: FinishedRun) -> list[tuple[str, str | Markup]]:
    points = run.points
    failed, unfinished = sum(point.failed for point in points), sum(point.unfinished for point in points)
    count = Markup("{}").format(len(points))
    count += Markup(', <a href="#failed">{} failed</a>').format(failed) if failed else ""
    count += Markup(', <a href="#figures">{} not finished</a> (interrupted)').format(unfinished) if unfinished else ""
    flows = comparison.flow_names(points)
    cached = f" ({len(run.known)} results known already)" if run.known else ""
    duration = "{} min {} s".format(*divmod(round(run.wall_s), 60)) if run.wall_s >= 60 else f"{run.wall_s:.1f} s"
    return [
        ("Date", run.date),
        ("Points", count),
        *([("Baseline", run.baseline)] if run.baseline else []),
        *([("Flows", ", ".join(flows))] if flows else []),
        ("Run time", duration + cached),
        *([("Tools", ", ".join(" ".join(item) for item in run.tools.items()))] if run.tools else []),
    ]


def _figures(page: Page, run: FinishedRun) -> None:
    points, baseline = run.points, run.baseline
    plots = trade_offs(points)
    if plots:
        heading = Markup("<figure><h3>{}</h3>{}</figure>")
        shown = Markup("\n").join(heading.format(title, page.plot(plot)) for title, plot in plots)
        options = controls(
            _flows(points),
            _named("kernel", "Kernel", comparison.kernel_names(points)),
            _named("workload", "Energy of", comparison.workload_names(points)),
            _named("colour", "Colour by", list(comparison.varying(points))),
        )
        grid = Markup('<div class="plots">\n{}\n</div>').format(shown)
        traces = [trace for _, plot in plots for figure in plot.variants.values() for trace in figure["data"]]
        legend = _FRONT * any(trace["mode"] == "lines" and trace["x"][1:] for trace in traces)
        legend += _BARS * any("error_x" in trace or "error_y" in trace for trace in traces)
        page.section("trade-offs", "Trade-offs", options, grid, hint(legend + _HOW_TO_READ), _SEE)
    elif len(points) > 1:
        page.section("trade-offs", "Trade-offs", hint(_NO_PLOTS))
    records = [record for point in points for record in point.kernels if clustered(record)]
    if len({record["cores"] for record in records}) > 1:
        plot = Plot(name="scaling", variants={(): scaling_figure(records)})
        page.section("scaling", "Kernels over the cores", plot, link="Scaling")
    entries = comparison.conditions(points)
    conditions = Markup('<h3 id="conditions">Conditions of these figures</h3>\n{}').format(_conditions(entries))
    table = tables.figure_table(points, baseline)
    page.section("figures", table.title, table, notes(run.notes), *([conditions] if entries else []), link="Figures")
    for name, link, shown_table in (
        ("rates", "Rates", tables.rate_table(points)),
        ("best", "Best points", tables.best_table(points, run.outside)),
        ("overhead", "Overhead", tables.overhead_table(points, baseline)),
    ):
        if shown_table:
            page.section(name, shown_table.title, shown_table, _SEE, link=link)


def _details(page: Page, points: Sequence[PointResult]) -> None:
    point, flow, workload = chosen_option("point"), chosen_option("flow"), chosen_option("workload")
    blocks, area = area_plots(points)
    heading = Markup("<h3>{} of {}, {}</h3>")
    several = len(points) > 1
    if blocks.variants:
        page.section(
            "area",
            "Area by hierarchy",
            controls(_flows(points), _points(points)),
            *([Markup("<h3>Parts of the top, all points</h3>"), blocks] if several else []),
            heading.format("Hierarchy", point, flow),
            area,
            hint("Click an instance to enlarge it, the bar above to go back."),
            _SEE,
            link="Area",
        )
    placements, picture = tables.placement_table(points), placement_plot(points)
    if placements:
        options, shown = controls(_flows(points), _points(points)), heading.format("Cells", point, flow)
        page.section("placement", "Placement", placements, options, shown, picture, _SEE)
    if paths := tables.path_table(points):
        page.section("path", "Critical path", paths, _SEE)
    energies = tables.energy_table(points)
    if energies:
        whole, modules = energy_plots(points)
        page.section(
            "energy",
            "Energy",
            controls(_named("workload", "Workload", comparison.workload_names(points)), _points(points)),
            *([Markup("<h3>All points, {}</h3>").format(workload), whole] if several else []),
            *([heading.format("Modules", point, workload), modules] if modules.variants else []),
            energies,
            _SEE,
        )


def _flows(points: Sequence[PointResult]) -> Markup:
    """Return the HTML control that selects a flow; flows with a clock come first, since every plot can show them."""
    clocked = {rate.flow.name for rate in comparison.kernel_rates(points)}
    names = sorted(comparison.flow_names(points), key=lambda name: name not in clocked)
    return choice("flow", "Flow", dict(zip(names, names, strict=True)), buttons=True)


def _named(name: str, title: str, options: Sequence[str]) -> Markup:
    return choice(name, title, dict(zip(options, options, strict=True))) if options else Markup()


def _points(points: Sequence[PointResult]) -> Markup:
    names = dict[str, str]()
    for number, point in enumerate(points):
        end = " (failed)" * point.failed + " (interrupted)" * point.unfinished
        names[str(number)] = f"{point_name(points, number)}{end}"
    first = next((number for number, point in enumerate(points) if not point.error), 0)
    return choice("point", "Point", names, first=str(first))


def _conditions(entries: Sequence[comparison.SharedConditions]) -> Markup:
    section = Markup('<section>\n<h4>{}</h4>\n<p class="tools">{}</p>\n{}</section>\n')
    listed = (section.format(entry.name, ", ".join(entry.tools), notes(entry.sentences)) for entry in entries)
    return Markup('<div class="conditions">\n{}</div>').format(Markup().join(listed))
