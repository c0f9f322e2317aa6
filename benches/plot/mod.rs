//! Curves as a self-contained SVG, legible on light and dark backgrounds.

use std::fmt::Write as _;

/// A medium grey, legible on white and on black.
const INK: &str = "#808080";

const WIDTH: f64 = 760.0;
const PANEL_HEIGHT: f64 = 190.0;

/// Room around the curves of a panel: for the numbers, and for the title.
const LEFT: f64 = 70.0;
const RIGHT: f64 = 20.0;
const ABOVE: f64 = 34.0;
const BELOW: f64 = 34.0;

/// Approximate number of grid lines in each direction.
const GRID_LINES: f64 = 4.0;

/// Panels below each other, with a common x axis.
#[derive(Debug)]
pub(crate) struct Plot {
    /// Label of the x axis.
    pub(crate) along: &'static str,
    pub(crate) panels: Vec<Panel>,
}

/// One quantity, as one or more curves.
#[derive(Debug)]
pub(crate) struct Panel {
    pub(crate) title: &'static str,
    pub(crate) curves: Vec<Curve>,
}

/// Points from left to right.
#[derive(Debug)]
pub(crate) struct Curve {
    pub(crate) name: &'static str,
    pub(crate) stroke: Stroke,
    pub(crate) points: Vec<(f64, f64)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stroke {
    /// Measured values.
    Solid,
    /// Expected values.
    Dashed,
}

/// Maps values to coordinates in a panel.
struct Scale {
    top: f64,
    most: (f64, f64),
}

// === impl Plot ===

impl Plot {
    pub(crate) fn to_svg(&self) -> String {
        let height = PANEL_HEIGHT * self.panels.len() as f64 + BELOW;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
             font-family=\"sans-serif\" font-size=\"12\" fill=\"{INK}\">\n"
        );
        let points = self.panels.iter().flat_map(Panel::points);
        let farthest = points.map(|(x, _)| x).fold(1.0, f64::max);
        for (at, panel) in self.panels.iter().enumerate() {
            let scale = Scale {
                top: PANEL_HEIGHT * at as f64,
                most: (farthest, panel.highest()),
            };
            panel.draw(&scale, &mut svg);
        }
        let middle = f64::midpoint(LEFT, WIDTH - RIGHT);
        let along = self.along;
        let bottom = height - BELOW / 2.0;
        push(
            &mut svg,
            &format!("<text x=\"{middle}\" y=\"{bottom}\" text-anchor=\"middle\">{along}</text>"),
        );
        push(&mut svg, "</svg>");
        svg
    }
}

// === impl Panel ===

impl Panel {
    fn points(&self) -> impl Iterator<Item = (f64, f64)> {
        self.curves.iter().flat_map(|curve| curve.points.clone())
    }

    /// A round number that no point exceeds.
    fn highest(&self) -> f64 {
        let highest = self.points().map(|(_, y)| y).fold(0.0, f64::max);
        let step = round_step(highest);
        (highest / step).ceil().max(1.0) * step
    }

    fn draw(&self, scale: &Scale, svg: &mut String) {
        let title_at = scale.top + ABOVE - 12.0;
        push(
            svg,
            &format!(
                "<text x=\"{LEFT}\" y=\"{title_at}\" font-weight=\"bold\">{}</text>",
                self.title
            ),
        );
        scale.draw_grid(svg);
        for (at, curve) in self.curves.iter().enumerate() {
            let points = curve.points.iter().map(|(x, y)| {
                let (x, y) = scale.place(*x, *y);
                format!("{x:.1},{y:.1}")
            });
            let points: Vec<String> = points.collect();
            let look = curve.stroke.look();
            push(
                svg,
                &format!(
                    "<polyline fill=\"none\" {look} points=\"{}\"/>",
                    points.join(" ")
                ),
            );
            // Legend beside the title: names of curves, each with a piece of its line.
            let left = WIDTH - RIGHT - 150.0 * (self.curves.len() - at) as f64;
            let (right, line_at, name_at) = (left + 24.0, title_at - 4.0, left + 30.0);
            push(
                svg,
                &format!(
                    "<line x1=\"{left}\" y1=\"{line_at}\" x2=\"{right}\" y2=\"{line_at}\" {look}/>\
                     <text x=\"{name_at}\" y=\"{title_at}\">{}</text>",
                    curve.name
                ),
            );
        }
    }
}

// === impl Stroke ===

impl Stroke {
    fn look(self) -> &'static str {
        match self {
            Self::Solid => "stroke=\"#2e8bd8\" stroke-width=\"2\"",
            Self::Dashed => "stroke=\"#d9822b\" stroke-width=\"1.5\" stroke-dasharray=\"5 4\"",
        }
    }
}

// === impl Scale ===

impl Scale {
    fn place(&self, x: f64, y: f64) -> (f64, f64) {
        let (farthest, highest) = self.most;
        let width = WIDTH - LEFT - RIGHT;
        let height = PANEL_HEIGHT - ABOVE - BELOW;
        let bottom = self.top + PANEL_HEIGHT - BELOW;
        (LEFT + width * x / farthest, bottom - height * y / highest)
    }

    /// Grid lines and ticks at round values, with their labels.
    fn draw_grid(&self, svg: &mut String) {
        let (farthest, highest) = self.most;
        let step = round_step(highest);
        let mut level = 0.0;
        while level <= highest * 1.001 {
            let (right, y) = self.place(farthest, level);
            let (number_x, number_y) = (LEFT - 6.0, y + 4.0);
            let written = short(level);
            push(
                svg,
                &format!(
                    "<line x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{right:.1}\" y2=\"{y:.1}\" \
                     stroke=\"{INK}\" stroke-opacity=\"0.35\"/>\
                     <text x=\"{number_x}\" y=\"{number_y:.1}\" text-anchor=\"end\">{written}</text>"
                ),
            );
            level += step;
        }
        let step = round_step(farthest);
        let mut distance = 0.0;
        while distance <= farthest * 1.001 {
            let (x, y) = self.place(distance, 0.0);
            let (tick, number_y) = (y + 4.0, y + 17.0);
            let written = short(distance);
            push(
                svg,
                &format!(
                    "<line x1=\"{x:.1}\" y1=\"{y:.1}\" x2=\"{x:.1}\" y2=\"{tick:.1}\" \
                     stroke=\"{INK}\"/>\
                     <text x=\"{x:.1}\" y=\"{number_y:.1}\" text-anchor=\"middle\">{written}</text>"
                ),
            );
            distance += step;
        }
    }
}

fn push(svg: &mut String, line: &str) {
    writeln!(svg, "{line}").expect("memory takes all");
}

/// A step of 1, 2 or 5 times a power of ten.
fn round_step(whole: f64) -> f64 {
    let rough = (whole / GRID_LINES).max(f64::MIN_POSITIVE);
    let power = 10_f64.powf(rough.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
    let wide_enough = steps.into_iter().find(|step| *step >= rough);
    wide_enough.unwrap_or(10.0 * power)
}

/// A number with k for thousands and M for millions.
fn short(number: f64) -> String {
    match number {
        _ if number >= 1e6 => format!("{} M", trimmed(number / 1e6)),
        _ if number >= 1e3 => format!("{} k", trimmed(number / 1e3)),
        _ => trimmed(number),
    }
}

fn trimmed(number: f64) -> String {
    let text = format!("{number:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
